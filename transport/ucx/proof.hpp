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

/// A proof that whoever wrote `bytes` has `key`. `purpose` keeps the proofs of different things
/// apart.
proof prove(const job_key& key, const char* purpose, std::span<const std::byte> bytes);

/// Is `given` the proof of `bytes`? Compares in constant time.
bool proven(const job_key& key, const char* purpose, std::span<const std::byte> bytes,
            std::span<const std::byte, 32> given);

/// The hello of `from` to `to`.
hello_header make_hello(const job_key& key, rank_t from, const nonce& from_nonce, rank_t to,
                        const nonce& to_nonce, bool keeps = false);

/// Was `hello` made with `key`, by this version?
bool genuine(const job_key& key, const hello_header& hello);

/// `address`, which is given to the node that `token` is for, behind a proof of it.
std::vector<std::byte> make_way(const job_key& key, std::uint64_t token,
                                std::span<const std::byte> address);

/// The address in what `make_way` made; empty if that was not with `key` and for `token`.
std::span<const std::byte> address_in(const job_key& key, std::uint64_t token,
                                      std::span<const std::byte> way);

/// What each header from `from` to `to` carries; cannot be guessed without `key`.
std::uint64_t token(const job_key& key, const nonce& from, const nonce& to);

}  // namespace troupe::transport::ucx
