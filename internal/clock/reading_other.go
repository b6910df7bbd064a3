//go:build !linux

package clock

func reading() Reading {
	d := Boottime()
	return Reading{Boot: d, Raw: d}
}
