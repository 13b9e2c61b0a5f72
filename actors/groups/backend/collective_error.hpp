#pragma once

#include <chrono>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/operation.hpp"
#include "troupe/actors/groups/backend/signature.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe {

/// An operation of a group did not end within its limit; the text names the ranks that are missing.
class collective_timeout : public rpc_timeout {
public:
  using rpc_timeout::rpc_timeout;
};

/// The ranks of a group asked for different things; the text says which rank asked for what.
class collective_mismatch : public invalid_argument {
public:
  using invalid_argument::invalid_argument;
};

/// The group was aborted, or destroyed, or an operation of it has failed before: it takes no more.
class group_failed : public cancelled_error {
public:
  using cancelled_error::cancelled_error;
};

namespace groups {

/// Who runs what, for the texts of errors.
struct operation_place {
  std::string group;  ///< its name
  int rank = 0;       ///< this one
  operation_kind kind = operation_kind::barrier;
  std::uint64_t sequence = 0;
};

/// "all_reduce, sequence number 12 of group 'world', on rank 1".
std::string to_string(const operation_place& where);

/// "rank 1", "ranks 0 and 3", "ranks 0, 2 and 3".
std::string rank_list(const std::vector<int>& ranks);

/// The error of an operation that has not ended within `limit`: `missing` are the ranks that this
/// one has waited for; empty: not known.
std::exception_ptr timeout_error(const operation_place& where, std::chrono::milliseconds limit,
                                 const std::vector<int>& missing);

/// What every rank throws when `asked`, by rank, do not agree.
std::exception_ptr mismatch_error(const operation_place& where,
                                  std::span<const operation_signature> asked);
/// The same where they agree on that, and `difference` says on what not.
std::exception_ptr mismatch_error(const operation_place& where, const std::string& difference);

/// The error of an operation whose group has failed by `why`, which keeps its class and gets this
/// operation's name, rank and sequence number in its text. Errors of other kinds become
/// group_failed.
std::exception_ptr error_at(const operation_place& where, const std::exception_ptr& why);

/// The same error with `more` at the end of its text.
std::exception_ptr error_with(const std::exception_ptr& why, const std::string& more);

}  // namespace groups

}  // namespace troupe
