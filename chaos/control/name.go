package control

// NameRule is what a resource's name has to be, in words, and IDRule what an id
// and IdempotencyKeyRule a key has to be.
const (
	NameRule           = "lower-case letters, digits and single dashes between them, at most 63"
	IDRule             = "letters, digits, dashes and underscores, at most 64"
	IdempotencyKeyRule = "at most 128 visible characters of ASCII, without blanks"
)

// ValidName is whether a resource may have this name, as [NameRule] says.
func ValidName(name string) bool {
	if name == "" || len(name) > 63 {
		return false
	}
	dash := true // before the name, where none may follow
	for _, c := range []byte(name) {
		if c == '-' && dash || c != '-' && !lower(c) && !digit(c) {
			return false
		}
		dash = c == '-'
	}
	return !dash
}

// ValidID is whether a resource or a run may have this id, as [IDRule] says.
func ValidID(id string) bool {
	for _, c := range []byte(id) {
		if !lower(c) && !lower(c|0x20) && !digit(c) && c != '-' && c != '_' {
			return false
		}
	}
	return id != "" && len(id) <= 64
}

// ValidIdempotencyKey is whether a run may be begun with this key, as
// [IdempotencyKeyRule] says. So may it with "", which is no key.
func ValidIdempotencyKey(key string) bool {
	for _, c := range []byte(key) {
		if c < '!' || c > '~' {
			return false
		}
	}
	return len(key) <= 128
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
func digit(c byte) bool { return '0' <= c && c <= '9' }
