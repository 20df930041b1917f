package middleware

import "container/list"

// lru is a bounded map that forgets what was used least recently. Its owner
// guards it.
type lru[V any] struct {
	max     int
	entries map[sessionKey]*list.Element
	order   list.List // of lruEntry[V], the latest first
}

type lruEntry[V any] struct {
	key   sessionKey
	value V
}

func newLRU[V any](limit int) *lru[V] {
	return &lru[V]{max: limit, entries: make(map[sessionKey]*list.Element)}
}

func (l *lru[V]) get(k sessionKey) (v V, ok bool) {
	e, ok := l.entries[k]
	if !ok {
		return v, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*lruEntry[V]).value, true
}

func (l *lru[V]) put(k sessionKey, v V) {
	if e, ok := l.entries[k]; ok {
		e.Value.(*lruEntry[V]).value = v
		l.order.MoveToFront(e)
		return
	}
	l.entries[k] = l.order.PushFront(&lruEntry[V]{k, v})
	if len(l.entries) > l.max {
		l.remove(l.order.Back().Value.(*lruEntry[V]).key)
	}
}

func (l *lru[V]) remove(k sessionKey) {
	if e, ok := l.entries[k]; ok {
		l.order.Remove(e)
		delete(l.entries, k)
	}
}

// each calls f for every entry, the latest first.
func (l *lru[V]) each(f func(sessionKey, V)) {
	for e := l.order.Front(); e != nil; e = e.Next() {
		entry := e.Value.(*lruEntry[V])
		f(entry.key, entry.value)
	}
}
