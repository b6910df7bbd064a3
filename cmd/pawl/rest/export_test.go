package rest

// DecodeStrict is decodeStrict.
var DecodeStrict = decodeStrict
