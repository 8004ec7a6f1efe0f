package sparkmsg

import (
	"embed"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"raftmaster/transport/javaser"
)

//go:embed catalogue/*.json
var catalogueFiles embed.FS

// jsonClass is one class of a catalogue file. Classes that the release does not have are null or carry Err.
type jsonClass struct {
	SUID   string      `json:"suid"` // hexadecimal
	Flags  byte        `json:"flags"`
	Fields [][2]string `json:"fields"` // type signature, name; in wire order
	Super  string      `json:"super"`
	Err    string      `json:"err"`
}

// catalogue holds the descriptors of one family, and what can be prepared from them.
type catalogue struct {
	fam     Family
	classes map[string]*javaser.Class
	enums   enumTemplates
}

// catalogues is everything known about class descriptors. It is immutable once loaded.
type catalogues struct {
	of    [familyEnd]*catalogue
	known *javaser.Registry
	// families tells which families have exactly this descriptor, superclasses included.
	families map[*javaser.Class]FamilySet
}

// loadCatalogues parses the embedded files, once. They are part of the program, so a defect in them is a panic.
var loadCatalogues = sync.OnceValue(func() *catalogues {
	all := &catalogues{known: javaser.NewRegistry(), families: make(map[*javaser.Class]FamilySet)}
	signatures := make(map[string]*javaser.String)
	for fam := FamilyA; fam < familyEnd; fam++ {
		raw, err := catalogueFiles.ReadFile("catalogue/" + fam.String() + ".json")
		if err != nil {
			panic(err)
		}
		var file map[string]*jsonClass
		if err := json.Unmarshal(raw, &file); err != nil {
			panic(fmt.Errorf("sparkmsg: catalogue %s: %w", fam, err))
		}
		l := loader{all: all, file: file, signatures: signatures, cat: &catalogue{fam: fam, classes: make(map[string]*javaser.Class)}}
		for name := range file {
			l.class(name)
		}
		for name := range arrayClasses {
			l.array(name)
		}
		l.cat.enums = newEnumTemplates(l.cat)
		all.of[fam] = l.cat
	}
	return all
})

// arrayClasses are the array classes that messages need, with their serialVersionUIDs, which follow from the element
// type alone and are the same in every release.
var arrayClasses = map[string]uint64{
	"[Ljava.lang.String;":            0xadd256e7e91d7b47,
	"[Ljava.lang.Object;":            0x90ce589f1073296c,
	"[Ljava.lang.StackTraceElement;": 0x02462a3c3cfd2239,
	"[Lscala.Tuple2;":                0x2ecc00dfd14fd7c0,
	"[B":                             0xacf317f8060854e0,
}

type loader struct {
	all        *catalogues
	file       map[string]*jsonClass
	signatures map[string]*javaser.String
	cat        *catalogue
}

// class interns the named class and its superclasses; nil if the release does not have it.
func (l *loader) class(name string) *javaser.Class {
	if c := l.cat.classes[name]; c != nil {
		return c
	}
	j := l.file[name]
	if j == nil || j.Err != "" {
		return nil
	}
	suid, err := strconv.ParseUint(j.SUID, 16, 64)
	if err != nil {
		panic(fmt.Errorf("sparkmsg: catalogue %s: %s: %w", l.cat.fam, name, err))
	}
	var super *javaser.Class
	if j.Super != "" {
		if super = l.class(j.Super); super == nil {
			panic(fmt.Sprintf("sparkmsg: catalogue %s: %s lacks its superclass %s", l.cat.fam, name, j.Super))
		}
	}
	fields := make([]javaser.Field, len(j.Fields))
	for i, f := range j.Fields {
		fields[i] = javaser.Field{Type: f[0][0], Name: f[1]}
		if c := f[0][0]; c == 'L' || c == '[' {
			fields[i].Signature = l.signature(f[0])
		}
	}
	return l.add(javaser.NewClass(name, int64(suid), j.Flags, fields, super))
}

func (l *loader) array(name string) {
	l.add(javaser.NewClass(name, int64(arrayClasses[name]), javaser.FlagSerializable, nil, nil))
}

func (l *loader) add(c *javaser.Class) *javaser.Class {
	c = l.all.known.Intern(c)
	l.cat.classes[c.Name] = c
	l.all.families[c] |= SetOf(l.cat.fam)
	return c
}

func (l *loader) signature(text string) *javaser.String {
	s := l.signatures[text]
	if s == nil {
		s = &javaser.String{Value: text}
		l.signatures[text] = s
	}
	return s
}

// recognise returns the families that agree with all descriptors. Classes of the JDK say nothing about Spark and differ
// between JDKs (StackTraceElement grew fields in 9); classes in no catalogue pass through.
func (all *catalogues) recognise(classes []*javaser.Class) (FamilySet, error) {
	left := AllFamilies
	for _, c := range classes {
		if strings.HasPrefix(c.Name, "java.") || strings.HasPrefix(c.Name, "[") {
			continue
		}
		fams, ok := all.families[c]
		if !ok && !all.known.Known(c.Name) {
			continue
		}
		if left.Intersect(fams).IsEmpty() {
			return 0, &IncompatibleClassError{Class: c.Name, Families: left}
		}
		left = left.Intersect(fams)
	}
	return left, nil
}
