#pragma once

// Stores: keys and values that processes share, and where jobs meet. docs/stores.md.
#include "troupe/transport/rendezvous/handlers.hpp"
#include "troupe/transport/rendezvous/open_store.hpp"
#include "troupe/transport/store/file_store.hpp"
#include "troupe/transport/store/hash_store.hpp"
#include "troupe/transport/store/prefix_store.hpp"
#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/store_collectives.hpp"
#include "troupe/transport/store/tcp/tcp_store.hpp"

namespace troupe {

using transport::default_store_timeout;
using transport::file_store;
using transport::hash_store;
using transport::job_secret;
using transport::max_store_entries;
using transport::max_store_key;
using transport::max_store_keys_at_once;
using transport::max_store_value;
using transport::open_tcp_store;
using transport::prefix_store;
using transport::register_rendezvous_handler;
using transport::rendezvous_answer;
using transport::rendezvous_handler;
using transport::rendezvous_request;
using transport::store;
using transport::store_collectives;
using transport::tcp_store;
using transport::tcp_store_options;
using transport::to_bytes;
using transport::to_text;
using transport::unregister_rendezvous_handler;

}  // namespace troupe
