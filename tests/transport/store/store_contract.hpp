#pragma once

#include <memory>
#include <span>
#include <string>

#include "tests/transport/store/store_fixture.hpp"
#include "troupe/transport/rendezvous/open_store.hpp"
#include "troupe/transport/store/file_store.hpp"
#include "troupe/transport/store/hash_store.hpp"
#include "troupe/transport/store/prefix_store.hpp"

namespace troupe::transport::test {

/// Makes clients of one store of a kind.
class store_maker {
public:
  virtual ~store_maker() = default;
  virtual std::shared_ptr<store> client() = 0;
};

class hash_maker : public store_maker {
  std::shared_ptr<store> client() override { return shared_; }
  std::shared_ptr<store> shared_ = std::make_shared<hash_store>();
};

class tcp_maker : public store_maker {
  std::shared_ptr<store> client() override { return served_.client(); }
  served_store served_;
};

class file_maker : public store_maker {
  std::shared_ptr<store> client() override {
    return std::make_shared<file_store>(folder_.path / "store", secret_);
  }
  temporary_folder folder_;
  job_secret secret_;
  std::shared_ptr<store> first_ = client();  // keeps the file between clients
};

// A server and its clients as programs open them.
class opened_maker : public store_maker {
  std::shared_ptr<store> client() override { return open_tcp_store(options_); }

  static tcp_store_options some_port(const job_secret& secret) {
    tcp_store_options out;
    out.serves = true;
    out.secret = secret;
    return out;
  }

  job_secret secret_;
  std::shared_ptr<tcp_store> server_ = open_tcp_store(some_port(secret_));
  tcp_store_options options_{.port = server_->where().port, .secret = secret_};
};

class prefix_maker : public store_maker {
  std::shared_ptr<store> client() override { return std::make_shared<prefix_store>("p", shared_); }
  std::shared_ptr<store> shared_ = std::make_shared<hash_store>();
};

/// A store of each kind, seen by two clients.
class store_contract : public testing::TestWithParam<std::string> {
protected:
  void SetUp() override {
    if (GetParam() == "hash") maker_ = std::make_unique<hash_maker>();
    if (GetParam() == "tcp") maker_ = std::make_unique<tcp_maker>();
    if (GetParam() == "file") maker_ = std::make_unique<file_maker>();
    if (GetParam() == "opened") maker_ = std::make_unique<opened_maker>();
    if (GetParam() == "prefix") maker_ = std::make_unique<prefix_maker>();
    a_ = maker_->client();
    b_ = maker_->client();
  }

  static std::string text(const store::bytes& value) { return to_text(value); }
  static bool has(store& s, std::string key) { return s.check(std::span(&key, 1)); }

  std::unique_ptr<store_maker> maker_;
  std::shared_ptr<store> a_;
  std::shared_ptr<store> b_;
};

}  // namespace troupe::transport::test

/// Runs the contract's tests of one file with every kind of store.
#define TROUPE_ALL_STORES()                                                            \
  INSTANTIATE_TEST_SUITE_P(kinds, store_contract,                                      \
                           testing::Values("hash", "tcp", "opened", "file", "prefix"), \
                           [](const auto& info) { return info.param; })
