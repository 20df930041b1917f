// Package store keeps what a daemon knows in an SQLite database: what a method has
// stored is on the disk when it returns, and what it could not store has changed
// nothing.
//
// The database is in the mode WAL with full synchronisation, and one process at a
// time has it open: whoever calls [Open] has seen to that. Its schema's version is
// the database's user_version, and is changed together with the schema. That, and
// not a library for migrations, because all there is to do is to run numbered
// files once, and to refuse a number that is not known before anything is written.
//
// What is no database of this kind, is damaged, or was written by a newer program
// is refused and left as it is.
package store
