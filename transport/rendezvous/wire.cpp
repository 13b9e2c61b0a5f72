#include "troupe/transport/rendezvous/wire.hpp"

#include <fmt/format.h>

#include "troupe/messages/schema/store.capnp.h"
#include "troupe/transport/store/store_capnp.hpp"

namespace troupe::transport {

store::bytes encode(const job_description& value) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::JobDescription>();
  root.setJob(as_text(value.job));
  root.setWorldSize(value.world_size);
  root.setNonce(value.nonce);
  root.setWriter(as_text(value.writer));
  root.setDynamic(value.dynamic);
  return flatten(message);
}

store::bytes encode(const announcement& value) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::Announcement>();
  root.setName(as_text(value.name));
  root.setHost(as_text(value.host));
  root.setHostId(as_text(value.host_id));
  root.setProcess(value.process);
  root.setIncarnation(value.incarnation);
  root.setVisit(value.visit);
  root.setProcessNamespace(value.process_namespace);
  return flatten(message);
}

store::bytes encode(const verdict& value) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::Verdict>();
  root.setFailure(as_text(value.failure));
  auto values = root.initValues(static_cast<unsigned>(value.values.size()));
  for (unsigned i = 0; i < value.values.size(); ++i) values.set(i, as_data(value.values[i]));
  return flatten(message);
}

job_description decode_job_description(const store::bytes& bytes) {
  return read_message<schema::JobDescription>(bytes, "the description of a job", [](auto root) {
    return job_description{to_string(root.getJob()), root.getWorldSize(), root.getNonce(),
                           to_string(root.getWriter()), root.getDynamic()};
  });
}

announcement decode_announcement(const store::bytes& bytes) {
  return read_message<schema::Announcement>(bytes, "the announcement of a rank", [](auto root) {
    return announcement{to_string(root.getName()),   to_string(root.getHost()),
                        to_string(root.getHostId()), root.getProcess(),
                        root.getIncarnation(),       root.getVisit(),
                        root.getProcessNamespace()};
  });
}

verdict decode_verdict(const store::bytes& bytes) {
  return read_message<schema::Verdict>(bytes, "the verdict of a rendezvous", [](auto root) {
    verdict out;
    out.failure = to_string(root.getFailure());
    for (const auto value : root.getValues()) {
      const auto part = as_bytes(value);
      out.values.emplace_back(part.begin(), part.end());
    }
    return out;
  });
}

std::string describe_process(const std::string& host, std::uint64_t process) {
  return fmt::format("process {} on host {}", process, host);
}

}  // namespace troupe::transport
