// A rank that others may try to misuse: victim_program RANK METHOD FOLDER HOW, of two ranks that
// send tensors to each other until FOLDER/end is there. HOW: default, dynamic (admits joiners) or
// tcp, ucx_tcp (over UCX's TCP, on a network declared as trusted). What nobody has any business
// with is at the address in FOLDER/RANK. Exits with 4 when that has changed.

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "tests/served.hpp"

namespace troupe::test {

at::Tensor twice(const at::Tensor& x) { return x * 2; }

}  // namespace troupe::test

namespace {

alignas(4096) std::array<std::atomic<std::uint64_t>, 512> kept;

void write_where(const std::filesystem::path& file) {
  for (auto& word : kept) word = 42;
  const auto half = file.string() + ".new";
  std::ofstream(half) << reinterpret_cast<std::uintptr_t>(kept.data());
  std::filesystem::rename(half, file);
}

bool unchanged() {
  return std::all_of(kept.begin(), kept.end(), [](const auto& word) { return word == 42; });
}

// By each of the ways that a tensor takes on one host.
void talk(const troupe::node& node) {
  for (const std::int64_t elements : {1, 1'000, 20'000, 1'000'000}) {
    const auto x = at::full({elements}, 21, at::kFloat);
    const auto y = node.rpc_sync<&troupe::test::twice>(1, x);
    if (!y.eq(42).all().item<bool>()) throw std::runtime_error("a tensor was changed on its way");
  }
}

}  // namespace

int main(int, char** argv) {
  using namespace troupe;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!test::served<&test::twice>()) return 2;
  try {
    const std::filesystem::path folder = argv[3];
    const std::string how = argv[4];
    rpc_options options;
    options.rank = std::stoi(argv[1]);
    options.world_size = 2;
    options.init_method = argv[2];
    options.admits_joiners = how == "dynamic";
    if (how == "tcp") options.transport = backend::tcp;
    if (how == "ucx_tcp") {
      options.transport = backend::ucx_tcp;
      options.trusted_network = true;
    }
    const auto node = init_rpc(options);
    if (node.rank() == 0) talk(node);
    write_where(folder / argv[1]);
    while (node.rank() == 0 && !std::filesystem::exists(folder / "end")) talk(node);
    node.shutdown(true, std::chrono::minutes(5));
    return unchanged() ? 0 : 4;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "rank %s: %s\n", argv[1], failure.what());
    return 1;
  }
}
