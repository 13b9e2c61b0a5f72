// The other process of tests of transports: peer_program BACKEND MODE. It is rank 1, writes its
// address in hexadecimal, reads rank 0's, and then
//   echo   sends everything back until its input ends, or prints when it lost its peer, and ends
//   stall  answers one message and makes no progress any more
//   push   sends large messages without end
//   leave  answers one message and ends without another
//   rush   begins to send a message of several parts, as soon as it can, and ends

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/transport/conformance/conformance_backend.hpp"
#include "tests/transport/conformance/peer_process.hpp"

namespace {

using namespace troupe;
using namespace troupe::transport;
using namespace troupe::transport::test;

void echo(node& n, incoming_message&& m) {
  std::vector<outgoing_payload> payloads;
  for (auto& p : m.payloads) payloads.push_back({p.data.get(), p.size, {}, p.data});
  n->send(0, 0, std::move(m.envelope), std::move(payloads));
}

void answer_one(node& n) {
  while (n.received.messages.empty()) n->progress();
  echo(n, std::move(n.received.messages.front()));
  while (!n->idle()) n->progress();
}

bool input_ended() {
  pollfd p{STDIN_FILENO, POLLIN, 0};
  char c = 0;
  return poll(&p, 1, 0) == 1 && read(STDIN_FILENO, &c, 1) == 0;
}

// By the clock of all processes.
void report_loss() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::cout << "lost " << std::chrono::nanoseconds(now).count() << std::endl;
}

void serve(node& n) {
  while (!input_ended()) {
    if (!n.received.lost.empty()) {
      report_loss();
      _exit(0);  // at once, for the test that waits for this
    }
    for (int i = 0; i < 100; ++i) n->progress();
    for (auto& m : n.received.messages) echo(n, std::move(m));
    n.received.messages.clear();
  }
}

void push(node& n) {
  while (n.received.lost.empty()) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back(patterned_payload(16 << 20, 1));
    n->send(0, 0, patterned_frame(8, 1), std::move(payloads));
    while (!n->idle() && n.received.lost.empty()) n->progress();
  }
}

// Rank 0 does not read meanwhile, so the message cannot be sent to its end.
void rush(node& n) {
  for (int i = 0; i < 2000; ++i) n->progress();
  n->send(0, 0, patterned_frame(100'000, 1));
  for (int i = 0; i < 2000; ++i) n->progress();
}

// A page that cannot be read ends the process in the middle of the copy, as a SIGKILL would.
void tear(node& n) {
  for (int i = 0; i < 20; ++i) {
    std::vector<outgoing_payload> payloads;
    payloads.push_back(patterned_payload(4000, 1));
    n->send(0, 0, patterned_frame(8, 1), std::move(payloads));
  }
  while (!n->idle()) n->progress();
  auto* page = static_cast<std::byte*>(
      mmap(nullptr, 1 << 14, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  std::vector<outgoing_payload> payloads;
  payloads.push_back({page, 4000, {}, nullptr});
  n->send(0, 0, patterned_frame(8, 1), std::move(payloads));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string mode = argv[2];
  node n;
  job(backend_named(argv[1])).begin(n, 1);
  std::cout << to_hex(n->address()) << std::endl;
  std::string line;
  if (!std::getline(std::cin, line)) return 2;
  n->add_peer(0, from_hex(line));
  if (mode == "echo") serve(n);
  if (mode == "push") push(n);
  if (mode == "tear") {
    answer_one(n);
    tear(n);
  }
  if (mode == "stall" || mode == "leave") answer_one(n);
  if (mode == "stall")
    while (!input_ended()) poll(nullptr, 0, 10);
  if (mode == "rush") rush(n);
  if (mode == "leave" || mode == "rush") _exit(0);
  return 0;
}
