package lb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// plainConfig is a Config without its methods, which encoding/json would call.
type plainConfig Config

// wireConfig is a Config in JSON: its limits are texts. A field hides the one of
// the same name that is embedded.
type wireConfig struct {
	*plainConfig
	IdleTimeout   wireLimit `json:"idle_timeout,omitzero"`
	HeaderTimeout wireLimit `json:"header_timeout,omitzero"`
	MaxDuration   wireLimit `json:"max_duration,omitzero"`
}

// MarshalJSON writes what UnmarshalJSON reads. Listener, Dial and Observe are not
// written.
func (c Config) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireConfig{
		(*plainConfig)(&c), wireLimit(c.IdleTimeout), wireLimit(c.HeaderTimeout), wireLimit(c.MaxDuration),
	})
}

// UnmarshalJSON sets the fields that data names, and refuses a name that no
// field has. It does not validate the whole.
func (c *Config) UnmarshalJSON(data []byte) error {
	next := *c
	wire := wireConfig{
		(*plainConfig)(&next), wireLimit(c.IdleTimeout), wireLimit(c.HeaderTimeout), wireLimit(c.MaxDuration),
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wire); err != nil {
		return err
	}
	next.IdleTimeout = time.Duration(wire.IdleTimeout)
	next.HeaderTimeout = time.Duration(wire.HeaderTimeout)
	next.MaxDuration = time.Duration(wire.MaxDuration)
	*c = next
	return nil
}

// wireLimit is a limit as text: "60s", or "none" for Unlimited.
type wireLimit time.Duration

const unlimitedText = "none"

func (l wireLimit) MarshalText() ([]byte, error) {
	if time.Duration(l) == Unlimited {
		return []byte(unlimitedText), nil
	}
	return []byte(time.Duration(l).String()), nil
}

func (l *wireLimit) UnmarshalText(text []byte) error {
	if string(text) == unlimitedText {
		*l = wireLimit(Unlimited)
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("lb: limit is %q, want a duration such as \"60s\", or %q", text, unlimitedText)
	}
	*l = wireLimit(d)
	return nil
}
