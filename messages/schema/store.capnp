@0xcb20ad8467e86b44;
# What crosses the wire, or lies in a file, between the ranks of a job before they have a
# transport: requests to the store and the values that the rendezvous keeps in it. Nothing is decoded
# before its sender has proven that it knows the job's secret (transport/store/tcp/store_handshake.hpp).

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("troupe::schema");

struct StoreRequest {
  enum Operation {
    set @0;
    get @1;
    wait @2;
    add @3;
    compareSet @4;
    deleteKey @5;
    numKeys @6;
    check @7;
    status @8;
    append @9;
    multiGet @10;
    multiSet @11;
    queuePush @12;
    queuePop @13;
    queueLen @14;
    listKeys @15;
  }

  operation @0 :Operation;

  keys @1 :List(Data);
  # One key; any number for wait, check, multiGet and multiSet; none for numKeys, status and listKeys.

  value @2 :Data;
  # set, append, queuePush: the value; compareSet: the desired one; listKeys: what the keys begin with.

  expected @3 :Data;
  delta @4 :Int64;

  timeoutMs @5 :UInt64;
  # get, wait, multiGet and queuePop: how long the server keeps the request.

  values @6 :List(Data);
  # multiSet: as many as there are keys.
}

struct StoreReply {
  enum Kind {
    done @0;
    value @1;
    number @2;
    missing @3;
    failed @4;
    values @5;
    keys @6;
  }

  kind @0 :Kind;
  value @1 :Data;
  # failed: the reason as text; status: the same for people.

  number @2 :Int64;
  # add: the sum; deleteKey and check: 1 or 0; numKeys and queueLen: how many.

  keys @3 :List(Data);
  # missing: the keys that did not come within the time; keys: those that there are.

  values @4 :List(Data);
}

struct JobDescription {
  # What the ranks of a job must agree on; the first to come writes it.

  job @0 :Text;
  worldSize @1 :UInt32;
  nonce @2 :UInt64;
  # Made anew for each rendezvous.

  writer @3 :Text;
  # The rank that wrote it, for error messages.

  dynamic @4 :Bool;
  # Other nodes may join while it runs.
}

struct Announcement {
  # What a rank says of itself before it has an address.

  name @0 :Text;
  host @1 :Text;
  hostId @2 :Text;
  # Equal for two processes if and only if they share a host and its network namespace.

  process @3 :UInt64;
  # The process id.

  incarnation @4 :UInt64;
  visit @5 :UInt64;
  # A random number: this call of rendezvous().

  processNamespace @6 :UInt64;
  # On one host: equal for two processes if and only if each can see the other's end.
}

struct Verdict {
  # How an exchange round of the rendezvous ended, the same for all ranks.

  failure @0 :Text;
  # Empty if it went well.

  values @1 :List(Data);
  # The value of each rank, by rank.
}

struct JoinMessage {
  # A message to the join service of a job (transport/rendezvous/join_service.hpp).

  enum Kind {
    request @0;
    address @1;
    closed @2;
  }

  kind @0 :Kind;
  visit @1 :UInt64;
  # A random number that the joiner chooses.

  name @2 :Text;
  # request: empty for "worker<rank>".

  hasRank @3 :Bool;
  rank @4 :UInt32;
  # request: that of a member that has left.

  writer @5 :Text;
  # The process that writes it, for people.

  waitLimitMs @6 :UInt64;
  # request: for how long the joiner waits.

  address @7 :Data;
  # address: that of its transport.
}

struct JoinReply {
  failure @0 :Text;
  # Empty if it went well.

  rank @1 :UInt32;
  jobId @2 :UInt64;
  welcome @3 :Data;
  # What a member needs to know of the others, as actors/membership writes it.
}
