@0xaf5e9611865950c9;
# The tensors of one message: what they look like, and where their bytes are. Large bytes travel
# beside the envelope, as payloads; the envelope carries only descriptors and small storages.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::schema");

struct TensorTable {
  storages @0 :List(TensorStorage);
  tensors @1 :List(TensorEntry);
}

struct TensorStorage {
  size @0 :UInt64;
  # In bytes, as the receiver shall have it.

  place @1 :UInt8;
  device @2 :UInt8;
  # The sender's: the number of libtorch's device type, and the device's among those of its type.

  union {
    inline @3 :Data;
    payload @4 :UInt32;
    # Index among the message's payloads; each payload belongs to one storage.

    leased @8 :LeasedMemory;
    # In the sender's device: the receiver copies it to where the tensors shall be.
  }

  pieces @5 :List(UInt32);
  # Empty: the bytes are the storage. Otherwise the storage has gaps that were not sent: the bytes
  # are the elements of these tensors, packed one after the other (see tensor_pieces.hpp), and the
  # receiver puts them into zeroed memory of `size` bytes.

  landing @6 :UInt8;
  landingType @7 :UInt8;
  # Where the tensors shall be at the receiver. 0: where their bytes arrive; n + 1: its device n of
  # that device type of libtorch.
}

struct LeasedMemory {
  payload @0 :UInt32;
  # Its payload, counted like all others; it has no bytes, and as long as the receiver has it the
  # memory stays as it is.

  handle @1 :Data;
  offset @2 :UInt64;
  # What the sender's device_ipc has said: an allocation, and where the bytes begin in it.

  bytes @3 :UInt64;
  # How many there are.
}

enum TensorType {
  # The values are those of c10::ScalarType.
  uint8 @0;
  int8 @1;
  int16 @2;
  int32 @3;
  int64 @4;
  float16 @5;
  float32 @6;
  float64 @7;
  complex32 @8;
  complex64 @9;
  complex128 @10;
  bool @11;
  qint8 @12;
  quint8 @13;
  qint32 @14;
  bfloat16 @15;
  quint4x2 @16;
  quint2x4 @17;
  bits1x8 @18;
  bits2x4 @19;
  bits4x2 @20;
  bits8 @21;
  bits16 @22;
  float8E5m2 @23;
  float8E4m3fn @24;
  float8E5m2fnuz @25;
  float8E4m3fnuz @26;
  uint16 @27;
  uint32 @28;
  uint64 @29;
  uint1 @30;
  uint2 @31;
  uint3 @32;
  uint4 @33;
  uint5 @34;
  uint6 @35;
  uint7 @36;
  int1 @37;
  int2 @38;
  int3 @39;
  int4 @40;
  int5 @41;
  int6 @42;
  int7 @43;
  float8E8m0fnu @44;
  float4E2m1fnX2 @45;
}

enum TensorLayout {
  undefined @0;
  strided @1;
  sparseCoo @2;
  sparseCsr @3;
  sparseCsc @4;
  sparseBsr @5;
  sparseBsc @6;
}

struct TensorEntry {
  layout @0 :TensorLayout;
  type @1 :TensorType;
  requiresGrad @2 :Bool;
  conjugate @3 :Bool;
  negative @4 :Bool;
  # The lazy conjugation and negation bits of a strided tensor.

  coalesced @5 :Bool;
  # Sparse COO only.

  storage @6 :UInt32;
  offset @7 :UInt64;
  # Strided only; the offset is in elements.

  sizes @8 :List(Int64);
  strides @9 :List(Int64);
  # In elements. Empty: row-major and dense.

  parts @10 :List(UInt32);
  # Tensors that a sparse one is made of: indices and values (COO), or compressed indices, plain
  # indices and values. All strided, and earlier in the table.

  quantizer @11 :TensorQuantizer;
  # Strided tensors of a quantised type only.
}

struct TensorQuantizer {
  union {
    perTensor :group {
      scale @0 :Float64;
      zeroPoint @1 :Int64;
    }
    perChannel :group {
      scales @2 :UInt32;
      zeroPoints @3 :UInt32;
      # Indices of strided tensors, earlier in the table.

      axis @4 :UInt8;
      floatParameters @5 :Bool;
      # Zero points are floating-point numbers.
    }
  }
}
