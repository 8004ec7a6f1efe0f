package node

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// notOurs is in a data directory that is a file system of its own.
const notOurs = "lost+found"

var errCopyInside = errors.New("the copy of a data directory cannot be in the data directory itself")

// backUp copies a data directory, whose lock the caller holds, durably, into the directory parent, "" for the one that it is in;
// a copy that does not become whole is removed. The directory may be named in any way: as ".", or by a symbolic link.
func backUp(dir, parent string, now time.Time) (string, error) {
	named, err := filepath.Abs(dir)
	if err == nil && parent == "" {
		parent = filepath.Dir(named)
	} else if err == nil {
		parent, err = filepath.Abs(parent)
	}
	if err != nil {
		return "", fmt.Errorf("copy the data directory: %w", err)
	}
	to := filepath.Join(parent, filepath.Base(named)+".before-recover-"+now.UTC().Format("20060102T150405"))
	if err := os.Mkdir(to, 0o700); err != nil { // never into one that is there
		return "", fmt.Errorf("copy the data directory: %w", err)
	}
	if err = copyTree(dir, to); err == nil {
		err = giveBack(to, dir)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("copy the data directory to %s: %w", to, err), os.RemoveAll(to))
	}
	return to, nil
}

// copyTree copies the directories and regular files of from into the directory to. It follows no link that leads out of from.
func copyTree(from, to string) (err error) {
	root, err := os.OpenRoot(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	copied, err := os.Stat(to)
	if err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		target := filepath.Join(to, path)
		switch {
		case path == notOurs:
			return fs.SkipDir
		case err != nil:
			return err
		case e.IsDir():
			if info, err := e.Info(); err != nil || os.SameFile(info, copied) {
				return errors.Join(err, errCopyInside)
			}
			return os.MkdirAll(target, 0o700)
		case e.Type().IsRegular():
			return copyFile(root, path, target)
		}
		return fmt.Errorf("%s is neither a file nor a directory", path)
	})
}

func copyFile(root *os.Root, from, to string) (err error) {
	in, err := root.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// giveBack gives what root has made below dir to the owner of like, a data directory: the master, which does not run as
// root, could not read it any more. Merely to open a directory makes files anew. No link is followed.
func giveBack(dir, like string) (err error) {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if path == notOurs {
			return fs.SkipDir
		}
		if err != nil {
			return err
		}
		info, err := root.Lstat(path)
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == 0 && (info.IsDir() || st.Nlink == 1) {
			return root.Lchown(path, int(owner.Uid), int(owner.Gid))
		}
		return nil
	})
}
