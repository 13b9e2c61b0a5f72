#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "troupe/transport/ucx/wire.hpp"

namespace troupe::transport::ucx {

using job_key = std::array<std::byte, 32>;
using proof = std::array<std::byte, 32>;

/// Starts libsodium; call it before anything else here. Throws transport_error.
void start_proofs();

/// Random bytes.
nonce make_nonce();

/// A proof that the writer of `bytes` has `key`. `purpose` separates the proofs of different
/// protocols.
proof prove(const job_key& key, const char* purpose, std::span<const std::byte> bytes);

/// Whether `given` is the proof of `bytes`. Compares in constant time.
bool proven(const job_key& key, const char* purpose, std::span<const std::byte> bytes,
            std::span<const std::byte, 32> given);

/// The hello of `from` to `to`.
hello_header make_hello(const job_key& key, rank_t from, const nonce& from_nonce, rank_t to,
                        const nonce& to_nonce, bool wants_acknowledgements = false);

/// Whether `hello` was made with `key`, by this version.
bool genuine(const job_key& key, const hello_header& hello);

/// `address`, which is for the node that has `token`, preceded by a proof of it.
std::vector<std::byte> sign_worker_address(const job_key& key, std::uint64_t token,
                                           std::span<const std::byte> address);

/// The address in `signed_address`, which `sign_worker_address` made; empty if it was made with
/// another key or for another token.
std::span<const std::byte> verify_worker_address(const job_key& key, std::uint64_t token,
                                                 std::span<const std::byte> way);

/// The token that each header from `from` to `to` carries; cannot be guessed without `key`.
std::uint64_t token(const job_key& key, const nonce& from, const nonce& to);

}  // namespace troupe::transport::ucx
