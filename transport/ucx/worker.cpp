#include "troupe/transport/ucx/worker.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/system/descriptors.hpp"
#include "troupe/transport/ucx/permitted.hpp"
#include "troupe/transport/ucx/ucx_log.hpp"

namespace troupe::transport::ucx {

namespace {

class config {
public:
  config() { check(ucp_config_read(nullptr, nullptr, &config_), "cannot read UCX's settings"); }
  ~config() { ucp_config_release(config_); }
  config(const config&) = delete;
  config& operator=(const config&) = delete;

  void set(const std::string& name, const std::string& value) {
    check(ucp_config_modify(config_, name.c_str(), value.c_str()),
          "UCX does not take the setting " + name + "=" + value);
  }

  ucp_config_t* get() const { return config_; }

private:
  ucp_config_t* config_ = nullptr;
};

std::string in_milliseconds(std::chrono::milliseconds t) {
  return std::to_string(t.count()) + "ms";
}

void choose_transports(config& c, const ucx_options& o, reach by) {
  // UCX_TLS is the user's choice.
  std::string wanted;
  if (const char* tls = std::getenv("UCX_TLS");
      tls && (o.kind == ucx_kind::automatic || o.kind == ucx_kind::rdma))
    wanted = tls;
  for (const auto& [name, value] : o.settings)
    if (name == "TLS") wanted = value;
  ucx_options allowed = o;
  if (by == reach::shared_memory) allowed.kind = ucx_kind::shared_memory;
  c.set("TLS", permitted_transports(allowed, wanted));
  if (!uses_network(allowed))
    c.set("NET_DEVICES", "");  // whatever UCX finds that we do not know by name
  else if (!o.net_devices.empty())
    c.set("NET_DEVICES", o.net_devices);
  else if (o.one_host)
    c.set("NET_DEVICES", "lo");
}

void cut_queue(config& c, const queue_shape& shape) {
  // Writing into a queue of another shape than assumed corrupts it: nothing of this may come from
  // the environment.
  c.set("POSIX_FIFO_SIZE", std::to_string(shape.places));
  c.set("POSIX_FIFO_ELEM_SIZE", "128");
  // A chunk with its headers. UCX's 8 KiB take a tenth more time.
  c.set("POSIX_SEG_SIZE", std::to_string(shape.bytes + 64));
  c.set("POSIX_RX_BUFS_GROW", std::to_string(shape.buffers()));
  // Segments are unlinked as soon as they exist, and end with the processes that have them open.
  c.set("POSIX_USE_PROC_LINK", "y");
  // UCX does not use shared memory where it thinks there is little of it, and falls back to private
  // memory where there is too little, until it crashes.
  c.set("POSIX_SHM_MIN_SIZE", "0");
  c.set("POSIX_ALLOC", "md");
  // All else that UCX allocates lies elsewhere.
  c.set("ALLOC_PRIO", "thp,mmap,heap");
}

void configure(config& c, const ucx_options& o, reach by, const queue_shape& shape) {
  // Without this, endpoints that report failures would not use shared memory.
  c.set("POSIX_ERROR_HANDLING", "y");
  cut_queue(c, shape);
  // With the first message that needs it, and not with the endpoint: see
  // backend_peer_receive_workers.cpp.
  c.set("RESOLVE_REMOTE_EP_ID", "n");
  c.set("CMA_MEMORY_INVALIDATE", o.bulk == ucx_bulk::copies ? "n" : "y");
  // The default spinlock stalls when threads outnumber cores.
  c.set("USE_MT_MUTEX", "y");
  // A cut cable is noticed by data that is not acknowledged. A silent connection sends a few bytes
  // now and then: UCX sets the kernel's probes, in whole seconds, only where it has not accepted
  // the connection.
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  const auto look = std::max(milliseconds(1), o.keepalive / 2);
  const auto silence = longest_silence(o.tcp_limit);
  const auto interval = std::max(seconds(1), std::chrono::floor<seconds>(o.keepalive));
  const auto probes = std::max<std::int64_t>(1, std::chrono::ceil<seconds>(silence) / interval - 1);
  c.set("KEEPALIVE_INTERVAL", in_milliseconds(look));
  c.set("TCP_KEEPIDLE", std::to_string(interval.count()) + "s");
  c.set("TCP_KEEPINTVL", std::to_string(interval.count()) + "s");
  c.set("TCP_KEEPCNT", std::to_string(probes));
  c.set("TCP_USER_TIMEOUT", in_milliseconds(std::max(silence / 2, silence - look)));
  // Without this, connecting to a host that does not answer would hold up all others.
  c.set("TCP_CONN_NB", "y");
  for (const auto& [name, value] : o.settings)
    if (name != "TLS" && (name != "NET_DEVICES" || uses_network(o))) c.set(name, value);
  choose_transports(c, o, by);
}

}  // namespace

void check(ucs_status_t status, const std::string& what) {
  const auto said = ucx_errors().first;
  if (status == UCS_OK) return;
  const std::string reason = ucs_status_string(status);
  throw transport_error(with_descriptor_shortage(
      what + ": " + reason + (said.empty() || said == reason ? "" : " (UCX: " + said + ")")));
}

peer_loss broken(const char* what, ucs_status_t status) {
  std::string why = ucs_status_string(status);
  if (status == UCS_ERR_SHMEM_SEGMENT) {
    const auto said = ucx_errors().last;
    why = "its shared memory cannot be opened" + (said.empty() ? "" : " (UCX: " + said + ")");
  }
  return {loss_kind::broken, with_descriptor_shortage(std::string(what) + ": " + why)};
}

namespace {

// UCX silently does without shared memory where there is none left.
void check_room(const queue_shape& shape) {
  const auto room = look_for_room();
  if (room.free < shape.memory())
    throw transport_error("a queue of " + std::to_string(shape.memory() >> 10) +
                          " KiB does not fit into shared memory: " + room.folder + " has " +
                          std::to_string(room.free >> 10) + " KiB free");
  // A process that writes beyond its limit is killed.
  if (room.limit && room.limit->left < shape.memory())
    throw transport_error("a queue of " + std::to_string(shape.memory() >> 10) +
                          " KiB does not fit into this process's memory: its limit, " +
                          room.limit->file + ", leaves " + std::to_string(room.limit->left >> 10) +
                          " KiB");
}

}  // namespace

worker::worker(const ucx_options& options, reach by, const queue_shape& shape) {
  take_over_ucx_log();
  if (by == reach::shared_memory || !uses_network(options)) check_room(shape);
  config c;
  configure(c, options, by, shape);
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const std::string name = "troupe rank " + std::to_string(options.rank);
  params.name = name.c_str();
  check(ucp_init(&params, c.get(), &context_), "cannot start UCX");
  try {
    ucp_worker_params_t worker_params{};
    worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker_params.thread_mode = UCS_THREAD_MODE_MULTI;
    check(ucp_worker_create(context_, &worker_params, &worker_), "cannot create a UCX worker");
    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE;
    check(ucp_worker_query(worker_, &attributes), "cannot query the UCX worker");
    if (attributes.thread_mode != UCS_THREAD_MODE_MULTI)
      throw transport_error("this UCX was built without threads (--enable-mt)");
    check(ucp_worker_get_efd(worker_, &event_fd_), "UCX has no event descriptor here");
  } catch (...) {
    if (worker_) ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
    throw;
  }
}

worker::~worker() {
  ucp_worker_destroy(worker_);
  ucp_cleanup(context_);
}

std::vector<std::byte> worker::address(bool network_only) const {
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  if (network_only) {
    attributes.field_mask |= UCP_WORKER_ATTR_FIELD_ADDRESS_FLAGS;
    attributes.address_flags = UCP_WORKER_ADDRESS_FLAG_NET_ONLY;
  }
  check(ucp_worker_query(worker_, &attributes), "cannot query the UCX worker's address");
  const auto* first = reinterpret_cast<const std::byte*>(attributes.address);
  std::vector<std::byte> bytes(first, first + attributes.address_length);
  ucp_worker_release_address(worker_, attributes.address);
  return bytes;
}

void worker::handle(unsigned id, ucp_am_recv_callback_t callback, void* argument) {
  ucp_am_handler_param_t param{};
  param.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                     UCP_AM_HANDLER_PARAM_FIELD_ARG;
  param.id = id;
  param.cb = callback;
  param.arg = argument;
  check(ucp_worker_set_am_recv_handler(worker_, &param), "cannot set a UCX handler");
}

}  // namespace troupe::transport::ucx
