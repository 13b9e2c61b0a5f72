// A process that has memory to hand out:  memory_program serve SECRET [USER]
// or one that maps another's:             memory_program fetch SECRET ADDRESS
// or one that watches processes:          memory_program watch
//
// `serve` prints its address, and writes each byte that it reads, as hex digits in a line, over its
// memory. `fetch` prints what is in the first and the last byte for each line that it reads, or
// what went wrong. Both end with their input. `watch` ends while the function runs that it is to
// call.

#include <unistd.h>

#include <cstdio>
#include <future>
#include <iostream>

#include "tests/transport/regions/memory_fixture.hpp"
#include "tests/transport/regions/memory_process.hpp"
#include "troupe/transport/system/process_end.hpp"

namespace troupe::transport::test {
namespace {

int serve(const job_secret& secret) {
  served_memory owner(secret);
  std::cout << to_hex(bytes_of(owner.server.address())) << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::memset(owner.memory.data(), std::stoi(line, nullptr, 16), owner.memory.size());
    std::cout << "written" << std::endl;
  }
  return 0;
}

int fetch(const job_secret& secret, const std::string& address) {
  region_address where;
  from_hex(address, std::as_writable_bytes(std::span(&where, 1)));
  try {
    const auto region = fetch_region(where, secret, soon());
    for (std::string line; std::getline(std::cin, line);)
      std::cout << to_hex(std::span(region->data(), 1))
                << to_hex(std::span(region->data() + region->size() - 1, 1)) << std::endl;
  } catch (const transport_error& e) {
    std::cout << e.what() << std::endl;
  }
  return 0;
}

// Cancelled when static objects are destroyed, as those of programs may be.
process_end_watch of_itself;
process_end_watch of_the_past;

int watch() {
  auto past = this_process();
  past.start_time -= 1;  // ended before this one began
  static std::promise<void> begun;
  of_the_past = on_process_end(past, [] {
    begun.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  });
  of_itself = on_process_end(this_process(), [] {});
  begun.get_future().wait();
  std::cout << "watching" << std::endl;
  return 0;
}

}  // namespace
}  // namespace troupe::transport::test

int main(int argc, char** argv) {
  using namespace troupe::transport;
  if (argc == 2) return test::watch();
  if (argc < 3) return 64;
  const auto secret = job_secret::from_hex(argv[2]);
  if (std::string(argv[1]) == "fetch" && argc == 4) return test::fetch(secret, argv[3]);
  if (argc == 4 && setuid(static_cast<uid_t>(std::stoi(argv[3]))) != 0) return 1;
  return test::serve(secret);
}
