package fault

// ScanEvents follows pieces, one after another, as a link does that cuts inside
// that event, and returns how many bytes pass and how many events have begun.
func ScanEvents(pieces [][]byte, event, offset int64) (passed int, begun int64) {
	var s scanner
	for _, piece := range pieces {
		n := s.next(piece, func(e, off int64, complete bool) bool {
			return e == event && (complete || offset > 0 && off >= offset)
		})
		passed += n
		if n < len(piece) {
			break
		}
	}
	return passed, s.events.begun
}
