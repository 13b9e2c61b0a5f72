#pragma once

// Declarations alone, for headers that only name Troupe's types. What uses them includes
// <troupe/troupe.hpp>, <troupe/autograd.hpp>, <troupe/optim.hpp> and the others.

namespace troupe {

class node;
struct rpc_options;
struct call_options;
struct worker_info;
struct member_event;
struct debug_info;

template <class T>
class future;
template <class T>
class promise;
template <class T>
class task;
template <class T>
class rref;
template <class Interface>
class actor_stub;

class error;
struct fault;
class simulation;

namespace transport {
class store;
class transport;
}  // namespace transport

namespace autograd {
class context;
}

template <class Optimizer>
class distributed_optimizer;
template <class M>
class remote_module;

}  // namespace troupe
