// grpc-peer: the same calls over gRPC and Protocol Buffers, one row a run:
//   troupe-run -n 2 grpc-peer --row grid_identity --json FILE
// Rank 1 serves at MASTER_ADDR:MASTER_PORT; rank 0 calls, and writes FILE. Built where Debian's
// libgrpc++-dev, protobuf-compiler and protobuf-compiler-grpc are.
//
// As fast as gRPC's ordinary interface is: no copy that it does not ask for. A caller copies its
// tensor into the message once and reads the answer in the message it came in; the callee works on
// the bytes that it got, and answers with them.

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <future>
#include <stdexcept>
#include <string>

#include "tensors.grpc.pb.h"
#include "tests/bench/timing.hpp"

namespace troupe::bench {
namespace {

// The default is 4 MiB for a message that comes in.
constexpr int no_limit = -1;

const std::size_t grid_sizes[] = {4'000'000, 400'000'000};
constexpr std::size_t large = 1 << 25;

/// The bytes of `message`, which must outlive it.
at::Tensor tensor_in(grpc_peer::Tensor& message) {
  const std::vector<std::int64_t> sizes(message.sizes().begin(), message.sizes().end());
  return at::from_blob(message.mutable_data()->data(), sizes, at::kFloat);
}

grpc_peer::Tensor message_of(const at::Tensor& x) {
  grpc_peer::Tensor out;
  for (const auto size : x.sizes()) out.add_sizes(size);
  out.set_data(x.const_data_ptr(), x.nbytes());
  return out;
}

class functions final : public grpc_peer::Functions::Service {
public:
  std::future<void> end() { return ended_.get_future(); }

  grpc::Status Echo(grpc::ServerContext*, const grpc_peer::Tensor* x,
                    grpc_peer::Tensor* answer) override {
    take(x, answer);
    return grpc::Status::OK;
  }

  grpc::Status Add200Times(grpc::ServerContext*, const grpc_peer::Tensor* x,
                           grpc_peer::Tensor* answer) override {
    take(x, answer);
    auto tensor = tensor_in(*answer);
    for (int i = 0; i < 200; ++i) tensor.add_(1);
    return grpc::Status::OK;
  }

  grpc::Status DoNothing(grpc::ServerContext*, const grpc_peer::Nothing*,
                         grpc_peer::Nothing*) override {
    return grpc::Status::OK;
  }

  grpc::Status End(grpc::ServerContext*, const grpc_peer::Nothing*, grpc_peer::Nothing*) override {
    ended_.set_value();
    return grpc::Status::OK;
  }

private:
  // The request is gRPC's own and goes after the call: nobody else reads it.
  static void take(const grpc_peer::Tensor* x, grpc_peer::Tensor* answer) {
    answer->Swap(const_cast<grpc_peer::Tensor*>(x));
  }

  std::promise<void> ended_;
};

void check(const grpc::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.error_message());
}

class caller {
public:
  explicit caller(const std::string& where) {
    grpc::ChannelArguments how;
    how.SetMaxReceiveMessageSize(no_limit);
    how.SetMaxSendMessageSize(no_limit);
    stub_ = grpc_peer::Functions::NewStub(
        grpc::CreateCustomChannel(where, grpc::InsecureChannelCredentials(), how));
  }

  using function = grpc::Status (grpc_peer::Functions::Stub::*)(grpc::ClientContext*,
                                                                const grpc_peer::Tensor&,
                                                                grpc_peer::Tensor*);

  /// The first element of the answer.
  float call(function which, const at::Tensor& x) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);  // the other rank may not listen yet
    grpc_peer::Tensor answer;
    check((stub_.get()->*which)(&context, message_of(x), &answer));
    return tensor_in(answer).const_data_ptr<float>()[0];
  }

  void nothing() {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    grpc_peer::Nothing in, out;
    check(stub_->DoNothing(&context, in, &out));
  }

  void end() {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    grpc_peer::Nothing nothing;
    check(stub_->End(&context, nothing, &nothing));
  }

private:
  std::unique_ptr<grpc_peer::Functions::Stub> stub_;
};

// As bench_rows.cpp measures it.
std::vector<measurement> measure(caller& there, const std::string& row) {
  const bool adds = row == "grid_ops200";
  const auto which = adds ? &grpc_peer::Functions::Stub::Add200Times
                          : static_cast<caller::function>(&grpc_peer::Functions::Stub::Echo);
  std::vector<measurement> measured;
  for (const auto size : grid_sizes) {
    const auto tensor = at::zeros({static_cast<std::int64_t>(size / 4)}, at::kFloat);
    const auto call = [&] {
      if (there.call(which, tensor) != (adds ? 200 : 0)) throw std::runtime_error("a wrong answer");
    };
    const bool long_one = size > large;
    const effort how = adds ? effort{.least = long_one ? 1u : 3u, .warm_up = long_one ? 0u : 1u}
                            : effort{.warm_up = long_one ? 1u : 200u};
    measured.push_back(times_of(call_times(call, how), size));
  }
  return measured;
}

std::vector<measurement> small_call(caller& there) {
  return {times_of(call_times([&] { there.nothing(); }))};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  if (!value) throw std::runtime_error(std::string(name) + " is not set: use troupe-run -n 2");
  return value;
}

void serve(const std::string& where) {
  functions all;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(no_limit);
  builder.SetMaxSendMessageSize(no_limit);
  builder.AddListeningPort(where, grpc::InsecureServerCredentials());
  builder.RegisterService(&all);
  const auto server = builder.BuildAndStart();
  if (!server) throw std::runtime_error("cannot listen at " + where);
  all.end().wait();
  server->Shutdown();
}

int run(int argc, char** argv) {
  std::string row, file;
  for (int i = 1; i + 1 < argc; i += 2)
    (std::string(argv[i]) == "--row" ? row : file) = argv[i + 1];
  if (row != "grid_identity" && row != "grid_ops200" && row != "tcp_call")
    throw std::runtime_error("--row must be grid_identity, grid_ops200 or tcp_call, but is '" +
                             row + "'");
  at::set_num_threads(1);
  // Where rank 1 is, if not on rank 0's host.
  const char* server = std::getenv("BENCH_SERVER");
  const auto where =
      (server ? std::string(server) : variable("MASTER_ADDR")) + ":" + variable("MASTER_PORT");
  if (variable("RANK") != "0") {
    serve(where);
    return 0;
  }
  caller there(where);
  write(file, row, 2, row == "tcp_call" ? small_call(there) : measure(there, row));
  there.end();
  return 0;
}

}  // namespace
}  // namespace troupe::bench

int main(int argc, char** argv) {
  try {
    return troupe::bench::run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "grpc-peer: %s\n", failure.what());
    return 1;
  }
}
