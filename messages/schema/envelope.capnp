@0x99b9c88e4e9126c0;
# What every message between two nodes begins with. Large tensors and large bodies travel beside it.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::schema");

using import "tensor.capnp".TensorTable;
using import "error.capnp".Fault;

enum Kind {
  actorMessage @0;
  # To the actor `target`; a request when `request` is not 0.

  response @1;
  # A value for the request `target`.

  failure @2;
  # An error for the request `target`.

  call @3;
  # Of the function `target` (the hash of its name and type).

  control @4;
  # Between the nodes' runtimes; the body says what.
}

struct Envelope {
  version @0 :UInt16;
  kind @1 :Kind;
  urgent @2 :Bool;
  # Passes ordinary messages in an actor's mailbox, and ordinary calls that wait for a thread.

  epoch @3 :UInt32;
  # Of the membership, as the sender knows it.

  job @4 :UInt64;
  incarnation @5 :UInt64;
  # Of the sender: a node that comes back is another one.

  sequence @6 :UInt64;
  # Counts the sender's messages to this receiver, from 1.

  target @7 :UInt64;
  request @8 :UInt64;
  # The target of the answer; 0: no answer is wanted.

  sender @9 :UInt64;
  # The actor on the sending node; 0: none.

  body :union {
    inline @10 :Data;
    payload @11 :Void;
    # The last of the message's payloads.
  }

  tensors @12 :TensorTable;
  fault @13 :Fault;

  recorded @14 :Bool;
  # Belongs to a distributed autograd context. The body begins with two words: the context and the
  # number of the message in it.

  usesReplyRoute @15 :Bool;
  # Its tensors were routed by the receiver's device map in reverse, as those of answers are.

  unrecorded @16 :Bool;
  # Of a message without an answer: the sender has arranged that no gradients of its tensors come back.

  profiled @17 :Bool;
  # Of a call: the caller profiles it and wants the callee's events,
  profiledShapes @18 :Bool;
  # with the sizes of operators' inputs,
  profiledMemory @19 :Bool;
  # and what operators allocate.

  limit @20 :UInt32;
  # Of a call or a request to an actor: how long its caller waits, in milliseconds; 0: not known.
}
