package middleware

import "github.com/revenant-mcp/revenant/middleware/internal/sse"

// quarantineRecords says what whole events were.
func quarantineRecords(held []byte) []QuarantinedEvent {
	var records []QuarantinedEvent
	var splitter sse.Splitter
	for start, at := 0, 0; at < len(held) && len(records) < MaxQuarantineRecords; {
		n, kind, _ := splitter.Next(held[at:])
		at += n
		if kind == sse.EventEnd && sse.HasData(held[start:at]) {
			records = append(records, quarantineRecord(held[start:at]))
		}
		if kind != sse.None {
			start = at
		}
	}
	return records
}

// maxRecordBytes bounds each string of a record.
const maxRecordBytes = 128

func quarantineRecord(block []byte) QuarantinedEvent {
	event := sse.Parse(block)
	record := QuarantinedEvent{EventID: clip(event.ID), Bytes: len(block)}
	if m, ok := parseRPC(event.Data); ok {
		record.Method = clip(unquote(m["method"]))
		record.RequestID = clip(string(m["id"]))
	}
	return record
}
