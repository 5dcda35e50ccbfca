package controller

import "iter"

// tree is an ordered map that shares structure: with and without return a new
// tree and leave the old one as it was, copying O(log n) nodes. It is an AVL
// tree, so equal sets of keys may have different shapes but the same order.
type tree[K, V any] struct {
	root    *node[K, V]
	compare func(a, b K) int
}

// node is immutable once a tree that holds it was returned.
// |height(left) - height(right)| <= 1.
type node[K, V any] struct {
	key         K
	value       V
	left, right *node[K, V]
	height      int
	size        int
}

func newTree[K, V any](compare func(a, b K) int) tree[K, V] { return tree[K, V]{compare: compare} }

func (t tree[K, V]) len() int { return t.root.count() }

func (t tree[K, V]) get(key K) (V, bool) {
	for n := t.root; n != nil; {
		switch c := t.compare(key, n.key); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.value, true
		}
	}
	var none V
	return none, false
}

// all yields the pairs in ascending order of key.
func (t tree[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.root.walk(yield) }
}

// with returns a tree in which key has value.
func (t tree[K, V]) with(key K, value V) tree[K, V] {
	t.root = t.insert(t.root, key, value)
	return t
}

// without returns a tree that doesn't have key.
func (t tree[K, V]) without(key K) tree[K, V] {
	t.root = t.remove(t.root, key)
	return t
}

func (t tree[K, V]) insert(n *node[K, V], key K, value V) *node[K, V] {
	if n == nil {
		return join(key, value, nil, nil)
	}
	switch c := t.compare(key, n.key); {
	case c < 0:
		return balance(n.key, n.value, t.insert(n.left, key, value), n.right)
	case c > 0:
		return balance(n.key, n.value, n.left, t.insert(n.right, key, value))
	default:
		return join(key, value, n.left, n.right)
	}
}

func (t tree[K, V]) remove(n *node[K, V], key K) *node[K, V] {
	if n == nil {
		return nil
	}
	switch c := t.compare(key, n.key); {
	case c < 0:
		return balance(n.key, n.value, t.remove(n.left, key), n.right)
	case c > 0:
		return balance(n.key, n.value, n.left, t.remove(n.right, key))
	case n.left == nil:
		return n.right
	case n.right == nil:
		return n.left
	default:
		next, rest := popFirst(n.right)
		return balance(next.key, next.value, n.left, rest)
	}
}

// popFirst splits off the node with the smallest key.
func popFirst[K, V any](n *node[K, V]) (first, rest *node[K, V]) {
	if n.left == nil {
		return n, n.right
	}
	first, rest = popFirst(n.left)
	return first, balance(n.key, n.value, rest, n.right)
}

// balance joins two trees whose heights differ by at most 2.
func balance[K, V any](key K, value V, l, r *node[K, V]) *node[K, V] {
	switch hl, hr := l.tall(), r.tall(); {
	case hl > hr+1 && l.left.tall() >= l.right.tall():
		return join(l.key, l.value, l.left, join(key, value, l.right, r))
	case hl > hr+1:
		m := l.right
		return join(m.key, m.value, join(l.key, l.value, l.left, m.left), join(key, value, m.right, r))
	case hr > hl+1 && r.right.tall() >= r.left.tall():
		return join(r.key, r.value, join(key, value, l, r.left), r.right)
	case hr > hl+1:
		m := r.left
		return join(m.key, m.value, join(key, value, l, m.left), join(r.key, r.value, m.right, r.right))
	default:
		return join(key, value, l, r)
	}
}

func join[K, V any](key K, value V, l, r *node[K, V]) *node[K, V] {
	return &node[K, V]{key, value, l, r, max(l.tall(), r.tall()) + 1, l.count() + r.count() + 1}
}

func (n *node[K, V]) tall() int {
	if n == nil {
		return 0
	}
	return n.height
}

func (n *node[K, V]) count() int {
	if n == nil {
		return 0
	}
	return n.size
}

func (n *node[K, V]) walk(yield func(K, V) bool) bool {
	return n == nil || n.left.walk(yield) && yield(n.key, n.value) && n.right.walk(yield)
}
