package bounds

// SayClaims ends a refusal of what does not claim: how an acquire says that it does, as the
// interfaces have it. The command line puts its own flags in its place.
const SayClaims = "and say so in the acquire (claims)"
