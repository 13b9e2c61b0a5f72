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
  # Of the job's membership, as the sender knows it.

  job @4 :UInt64;
  incarnation @5 :UInt64;
  # Of the sender: a node that comes back is another one.

  sequence @6 :UInt64;
  # Counts the sender's messages to this receiver, from 1.

  target @7 :UInt64;
  request @8 :UInt64;
  # What the answer shall name as its target; 0: none is wanted.

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
  # Belongs to a distributed autograd context, of which the body's first two words tell: the context
  # and the message's number in it.

  goesBack @15 :Bool;
  # Its tensors have gone by the receiver's device map, the other way, as those of answers do.

  unrecorded @16 :Bool;
  # Of a message that nobody answers: the sender has seen to it that its tensors' gradients end here.

  profiled @17 :Bool;
  # Of a call: its caller's profile wants what the callee does for it,
  profiledShapes @18 :Bool;
  # with the sizes of operators' inputs,
  profiledMemory @19 :Bool;
  # and what operators allocate.

  limit @20 :UInt32;
  # Of a call or a request to an actor: how long its caller waits, in milliseconds; 0: not known.
}
