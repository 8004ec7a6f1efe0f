// Package javaser reads and writes the Java Object Serialization Stream Protocol, version 2, as graphs.
//
// Decode turns one stream (AC ED 00 05 and exactly one object) into nodes with identity: two references to one node are
// two references to one Java instance, strings included. Encode writes a graph back; for every stream that a JVM's
// ObjectOutputStream wrote, Encode(Decode(x)) is x, byte for byte. No class is ever interpreted: names are data.
//
// What is covered is what ordinary serializable classes produce: class descriptors with default fields and annotations
// (block data and objects), externalizable classes that use block data, strings, arrays, enums, class objects and
// references, cycles included. Proxy classes, TC_RESET, TC_EXCEPTION and the protocol version 1 are refused.
//
// Limits hold before memory is set aside: depth, handles, values, name lengths, stream size. A malformed stream gives an
// *Error with offset and class, never a panic, and never bytes of the stream, which may hold secrets.
//
// Class descriptors are interned. On decoding, a Registry may offer descriptors that are known already, and equal ones
// are shared with it; on encoding, equal descriptors and equal field signatures are written once, as a JVM does, so that
// a graph from one stream can be hung under a new root made of other descriptors.
//
// Decoded descriptors from a Registry are shared by all goroutines: never change a Class. Otherwise a graph belongs to
// whoever holds it; Encode only reads it.
package javaser
