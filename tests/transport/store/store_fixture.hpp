#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "tests/free_port.hpp"
#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/tcp/tcp_store.hpp"
#include "troupe/transport/store/tcp/tcp_store_server.hpp"

namespace troupe::transport::test {

using namespace std::chrono_literals;

/// Longer than anything takes that works, also on a machine that has much else to do.
inline constexpr std::chrono::milliseconds wait_limit = 100s;

/// What does not wait for all of that ends sooner.
inline constexpr std::chrono::milliseconds soon_enough = wait_limit / 2;

inline socket_address loopback(std::uint16_t port = 0) {
  return resolve({"127.0.0.1", port}, deadline_after(wait_limit)).front();
}

/// A socket that listens on a free port of the loopback interface.
inline unique_fd listen_somewhere() {
  auto made = listen_on(loopback());
  if (!made.fd) throw std::system_error(made.error, std::generic_category(), "cannot listen");
  return std::move(made.fd);
}

using troupe::test::free_port;

/// A server on a free port of the loopback interface.
struct served_store {
  explicit served_store(const tcp_store_server::limits& l = {})
      : server(listen_somewhere(), secret, l) {}

  std::unique_ptr<tcp_store> client() {
    return std::make_unique<tcp_store>(where(), secret, deadline_after(wait_limit));
  }
  endpoint where() const { return {"127.0.0.1", server.port()}; }

  job_secret secret;
  tcp_store_server server;
};

/// A folder that is removed at the end.
struct temporary_folder {
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "troupe-test-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path = name;
  }
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

/// Polls until `condition` holds; false after `limit`.
template <class Condition>
bool eventually(Condition&& condition, std::chrono::milliseconds limit = wait_limit) {
  const auto deadline = deadline_after(limit);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// The text of the Error that `call` throws; "" with a failure if it throws none.
template <class Error, class Call>
std::string text_of(Call&& call) {
  try {
    call();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace troupe::transport::test

#define EXPECT_CONTAINS(text, part) \
  EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)
