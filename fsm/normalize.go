package fsm

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Values are validated and brought into one form where they enter the state: everything behind relies on it.

func invalid(cmd Command, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %w", ErrInvalidCommand, cmd.Type(), fmt.Errorf(format, args...))
}

// isControl tells whether a rune is one of Unicode's control characters (category Cc), a set that is fixed for ever.
func isControl(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }

// checkID accepts what may be part of a key.
func checkID(what, id string) error {
	switch {
	case id == "":
		return fmt.Errorf("%s is empty", what)
	case len(id) > MaxIDBytes:
		return fmt.Errorf("%s has %d bytes, the limit is %d", what, len(id), MaxIDBytes)
	case strings.IndexByte(id, 0) >= 0:
		return fmt.Errorf("%s contains NUL", what)
	case strings.ContainsFunc(id, isControl):
		return fmt.Errorf("%s contains a control character", what) // it ends in log lines and in paths
	}
	return nil
}

func checkText(what, text string) error {
	if len(text) > MaxTextBytes {
		return fmt.Errorf("%s has %d bytes, the limit is %d", what, len(text), MaxTextBytes)
	}
	return nil
}

// checkURL accepts what may be shown and written to a log as it is.
func checkURL(what, url string) error {
	if strings.ContainsFunc(url, isControl) {
		return fmt.Errorf("%s contains a control character", what)
	}
	return checkText(what, url)
}

func checkAddress(what string, a Address) error {
	if err := checkID(what+" host", a.Host); err != nil {
		return err
	}
	if a.Port < 1 || a.Port > math.MaxUint16 {
		return fmt.Errorf("%s port %d is out of range", what, a.Port)
	}
	return nil
}

// checkAmount accepts Java's non-negative ints.
func checkAmount(what string, n int) error {
	if n < 0 || n > math.MaxInt32 {
		return fmt.Errorf("%s %d is out of range", what, n)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// clip bounds a text that is only stored for people to read; it never cuts a character.
func clip(text string) string {
	if len(text) <= MaxTextBytes {
		return text
	}
	cut := MaxTextBytes
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}

// normalResources sorts by name and the addresses as text (B-061), without repetitions and empty resources.
func normalResources(in []Resource) ([]Resource, error) {
	if len(in) > MaxListEntries {
		return nil, fmt.Errorf("%d resources, the limit is %d", len(in), MaxListEntries)
	}
	var out []Resource
	for _, r := range in {
		if err := checkID("resource name", r.Name); err != nil {
			return nil, err
		}
		if len(r.Addresses) > MaxListEntries {
			return nil, fmt.Errorf("resource %s has %d addresses, the limit is %d", r.Name, len(r.Addresses), MaxListEntries)
		}
		for _, a := range r.Addresses {
			if err := checkID("address of resource "+r.Name, a); err != nil {
				return nil, err
			}
		}
		if len(r.Addresses) == 0 {
			continue
		}
		addresses := slices.Clone(r.Addresses)
		slices.Sort(addresses)
		out = append(out, Resource{Name: r.Name, Addresses: slices.Compact(addresses)})
	}
	slices.SortFunc(out, func(a, b Resource) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(out); i++ {
		if out[i].Name == out[i-1].Name {
			return nil, fmt.Errorf("resource %s is named twice", out[i].Name)
		}
	}
	return out, nil
}

// normalProfile fills in the application's defaults (B-181) and sorts the resources.
func normalProfile(p Profile, defaults Profile) (Profile, error) {
	if err := firstError(checkAmount("profile id", p.ID), checkAmount("executor memory", p.MemoryMB)); err != nil {
		return Profile{}, err
	}
	if p.Cores == nil {
		p.Cores = defaults.Cores
	}
	if p.Cores != nil && (*p.Cores < 1 || *p.Cores > math.MaxInt32) {
		return Profile{}, fmt.Errorf("executor cores %d are out of range", *p.Cores)
	}
	if p.MemoryMB == 0 {
		p.MemoryMB = defaults.MemoryMB
	}
	var err error
	p.Resources, err = normalAmounts(p.Resources)
	return p, err
}

// normalAmounts sorts the requirements by name and drops those of nothing.
func normalAmounts(in []ResourceAmount) ([]ResourceAmount, error) {
	if len(in) > MaxProfileResources {
		return nil, fmt.Errorf("%w: %d resources, the limit is %d", ErrTooLarge, len(in), MaxProfileResources)
	}
	var out []ResourceAmount
	for _, r := range in {
		if err := firstError(checkID("resource name", r.Name), checkAmount("resource amount", r.Amount)); err != nil {
			return nil, err
		}
		if r.Amount > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b ResourceAmount) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(out); i++ {
		if out[i].Name == out[i-1].Name {
			return nil, fmt.Errorf("resource %s is named twice", out[i].Name)
		}
	}
	return out, nil
}

// Sets of resource addresses. All are sorted, so that these are merges.

func addressesOf(resources []Resource, name string) []string {
	for i := range resources {
		if resources[i].Name == name {
			return resources[i].Addresses
		}
	}
	return nil
}

// freeAddresses gives the addresses of a resource that are not in use, in order.
func freeAddresses(w *Worker, name string) []string {
	all, used := addressesOf(w.Resources, name), addressesOf(w.ResourcesUsed, name)
	if len(used) == 0 {
		return all
	}
	free := make([]string, 0, len(all))
	for _, a := range all {
		if _, taken := slices.BinarySearch(used, a); !taken {
			free = append(free, a)
		}
	}
	return free
}

// addResources gives the union of what is used and what is newly taken.
func addResources(used, taken []Resource) []Resource {
	if len(taken) == 0 {
		return used
	}
	out := slices.Clone(used)
	for _, r := range taken {
		i, found := slices.BinarySearchFunc(out, r.Name, func(u Resource, name string) int { return cmp.Compare(u.Name, name) })
		if !found {
			out = slices.Insert(out, i, Resource{Name: r.Name, Addresses: slices.Clone(r.Addresses)})
			continue
		}
		merged := slices.Concat(out[i].Addresses, r.Addresses)
		slices.Sort(merged)
		out[i].Addresses = merged
	}
	return out
}

// removeResources gives what stays used; names without any address go.
func removeResources(used, released []Resource) []Resource {
	if len(released) == 0 {
		return used
	}
	var out []Resource
	for _, u := range used {
		gone := addressesOf(released, u.Name)
		var kept []string
		for _, a := range u.Addresses {
			if _, released := slices.BinarySearch(gone, a); !released {
				kept = append(kept, a)
			}
		}
		if len(kept) > 0 {
			out = append(out, Resource{Name: u.Name, Addresses: kept})
		}
	}
	return out
}
