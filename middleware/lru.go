package middleware

import "container/list"

// lru is a bounded map that forgets what was used least recently. Its owner
// guards it. A nil one is empty.
type lru[K comparable, V any] struct {
	max     int
	entries map[K]*list.Element
	order   list.List // of lruEntry[K, V], the latest first
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](limit int) *lru[K, V] {
	return &lru[K, V]{max: limit, entries: make(map[K]*list.Element)}
}

func (l *lru[K, V]) get(k K) (v V, ok bool) {
	if l == nil {
		return v, false
	}
	e, ok := l.entries[k]
	if !ok {
		return v, false
	}
	l.order.MoveToFront(e)
	return e.Value.(*lruEntry[K, V]).value, true
}

func (l *lru[K, V]) put(k K, v V) {
	if e, ok := l.entries[k]; ok {
		e.Value.(*lruEntry[K, V]).value = v
		l.order.MoveToFront(e)
		return
	}
	l.entries[k] = l.order.PushFront(&lruEntry[K, V]{k, v})
	if len(l.entries) > l.max {
		l.remove(l.order.Back().Value.(*lruEntry[K, V]).key)
	}
}

func (l *lru[K, V]) remove(k K) {
	if l == nil {
		return
	}
	if e, ok := l.entries[k]; ok {
		l.order.Remove(e)
		delete(l.entries, k)
	}
}

func (l *lru[K, V]) len() int {
	if l == nil {
		return 0
	}
	return len(l.entries)
}

// each calls f for every entry, the latest first.
func (l *lru[K, V]) each(f func(K, V)) {
	for e := l.order.Front(); e != nil; e = e.Next() {
		entry := e.Value.(*lruEntry[K, V])
		f(entry.key, entry.value)
	}
}
