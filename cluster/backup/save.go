package backup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// tmpPattern marks files that are not whole.
const tmpPattern = ".tmp-"

// SaveFile makes a file from what write puts into it, with mode 0600: under a temporary name beside it, verified when it
// is whole, made durable, and only then renamed. An older file of that name stays until then.
func SaveFile(path string, write func(io.Writer) error) (info Info, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+tmpPattern+"*") // mode 0600
	if err != nil {
		return info, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, ignoreMissing(os.Remove(f.Name())))
		}
	}()
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return info, err
	}
	if info, err = Inspect(f.Name()); err != nil {
		return info, err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return info, err
	}
	return info, syncDir(filepath.Dir(path))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Inspect reads and verifies the file at path; the error names it.
func Inspect(path string) (Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return Info{}, err
	}
	info, _, err := Read(f)
	err = errors.Join(err, f.Close())
	if err != nil {
		return info, fmt.Errorf("%s: %w", path, err)
	}
	return info, nil
}
