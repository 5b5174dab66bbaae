// Package pki makes and keeps the testbed's certificate authorities, certificates and
// keys, in the files where k3s keeps them.
//
// Guarantees: an existing file is reused; a damaged one is reported and never overwritten;
// every write is atomic (temporary file, fsync, rename, fsync of the directory); keys are
// 0600. Failure: an error naming the file and the remedy, never its content.
package pki

import (
	"fmt"
	"os"
	"path/filepath"
)

// WriteFile replaces a file as a whole: a reader, or a power cut, sees old or new.
func WriteFile(path string, content []byte, mode os.FileMode) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot create the directory of %s: %w", path, err)
	}
	temporary, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w (is the directory writable, the disk full?)", path, err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // gone already after the rename
	if err := fill(temporary, content, mode); err != nil {
		return fmt.Errorf("cannot write %s: %w (is the disk full?)", path, err)
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	return syncDir(dir)
}

// fill writes, flushes and closes; CreateTemp made the file 0600, so that a key is never
// readable by others, not even for a moment.
func fill(file *os.File, content []byte, mode os.FileMode) error {
	_, err := file.Write(content)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

func syncDir(dir string) error {
	handle, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer handle.Close()
	return handle.Sync()
}
