#include "troupe/messages/envelope/envelope.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>
#include <new>
#include <utility>

#include "troupe/messages/envelope/error_codec.hpp"
#include "troupe/messages/envelope/plain_envelope.hpp"
#include "troupe/messages/schema/envelope.capnp.h"
#include "troupe/messages/tensor/tensor_reader.hpp"
#include "troupe/messages/tensor/tensor_table.hpp"
#include "troupe/messages/tensor/tensor_writer.hpp"

namespace troupe {

namespace {

constexpr std::size_t word_size = sizeof(capnp::word);
constexpr std::size_t max_inline_body = 4096;
constexpr std::size_t max_envelope = std::size_t{64} << 20;

// Builds a message straight into a frame, behind room for the table of one segment. What does not
// fit goes to the heap and is put together at the end.
class frame_builder final : public capnp::MessageBuilder {
public:
  explicit frame_builder(std::size_t capacity) : frame_(word_size + capacity) {
    std::memset(frame_.data(), 0, word_size + capacity);
    words_ = capacity / word_size;
  }

  kj::ArrayPtr<capnp::word> allocateSegment(unsigned minimum) override {
    if (!used_ && minimum <= words_) {
      used_ = true;
      return {reinterpret_cast<capnp::word*>(frame_.data() + word_size), words_};
    }
    used_ = true;
    more_.push_back(kj::heapArray<capnp::word>(std::max<std::size_t>(minimum, 1024)));
    auto& segment = more_.back();
    std::memset(segment.begin(), 0, segment.asBytes().size());
    return segment;
  }

  frame finish() {
    auto segments = getSegmentsForOutput();
    if (segments.size() == 1 && more_.empty()) {
      auto words = static_cast<std::uint32_t>(segments[0].size());
      std::uint32_t table[2] = {0, words};
      std::memcpy(frame_.data(), table, sizeof table);
      frame_.resize(word_size + words * word_size);
      return std::move(frame_);
    }
    auto flat = capnp::messageToFlatArray(segments);
    auto bytes = flat.asBytes();
    return frame(std::span(reinterpret_cast<const std::byte*>(bytes.begin()), bytes.size()));
  }

private:
  frame frame_;
  std::size_t words_ = 0;
  bool used_ = false;
  std::vector<kj::Array<capnp::word>> more_;
};

}  // namespace

sealed_envelope seal(const envelope_header& header, std::span<const std::byte> body,
                     tensor_writer* tensors, const fault* why,
                     std::unique_ptr<pending_bytes>* pending) {
  const bool has_tensors = tensors && !tensors->empty();
  const bool body_apart = body.size() > max_inline_body;
  if (!has_tensors && !body_apart && !why) return {write_plain_envelope(header, body), {}};
  std::size_t room = 192 + (body_apart ? 0 : body.size());
  if (has_tensors) room += tensors->words() * word_size;
  if (why)
    room += 128 + why->text.size() + why->node.size() + why->function.size() + why->type.size();
  frame_builder builder((room + word_size - 1) / word_size * word_size);
  auto root = builder.initRoot<schema::Envelope>();
  root.setVersion(protocol_version);
  root.setKind(static_cast<schema::Kind>(header.kind));
  root.setUrgent(header.urgent);
  root.setRecorded(header.recorded);
  root.setUsesReplyRoute(header.uses_reply_route);
  root.setUnrecorded(header.unrecorded);
  root.setProfiled(header.profiled);
  root.setProfiledShapes(header.profiled_shapes);
  root.setProfiledMemory(header.profiled_memory);
  root.setLimit(header.limit);
  root.setEpoch(header.epoch);
  root.setJob(header.job);
  root.setIncarnation(header.incarnation);
  root.setSequence(header.sequence);
  root.setTarget(header.target);
  root.setRequest(header.request);
  root.setSender(header.sender);
  sealed_envelope out;
  if (has_tensors) {
    tensors->build(root.initTensors());
    if (pending) *pending = tensors->take_pending();
    out.payloads = tensors->take_payloads();
    tensors->clear();  // the payloads alone hold them, so that a transport knows the last user
  }
  if (body_apart) {
    auto copy = std::make_shared<std::vector<std::byte>>(body.begin(), body.end());
    out.payloads.push_back({copy->data(), copy->size(), {}, copy});
    root.getBody().setPayload();
  } else {
    auto data = root.getBody().initInline(static_cast<unsigned>(body.size()));
    if (!body.empty()) std::memcpy(data.begin(), body.data(), body.size());
  }
  if (why) write_fault(*why, root.initFault());
  if (out.payloads.size() > max_payloads)
    throw encode_error("a message with " + std::to_string(out.payloads.size()) +
                       " tensors of their own memory cannot be sent; the most is " +
                       std::to_string(max_payloads) + ": send some of them joined, or in turns");
  out.bytes = builder.finish();
  if (out.bytes.size() > max_envelope)
    throw encode_error("a message whose envelope has " + std::to_string(out.bytes.size()) +
                       " bytes, more than 64 MiB, cannot be sent: send fewer tensors at once");
  return out;
}

namespace {

envelope_kind checked_kind(unsigned version, unsigned kind) {
  if (version != protocol_version)
    throw decode_error("an envelope of protocol version " + std::to_string(version) +
                       "; this node speaks " + std::to_string(protocol_version));
  if (kind > static_cast<unsigned>(envelope_kind::control))
    throw decode_error("an envelope of unknown kind " + std::to_string(kind));
  return static_cast<envelope_kind>(kind);
}

}  // namespace

struct opened_envelope::reader {
  explicit reader(const frame& bytes)
      : message(words(bytes), options(bytes)), root(message.getRoot<schema::Envelope>()) {}

  static kj::ArrayPtr<const capnp::word> words(const frame& bytes) {
    return kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()),
                        bytes.size() / word_size);
  }

  // Enough to read everything a few times, and not for ever.
  static capnp::ReaderOptions options(const frame& bytes) {
    capnp::ReaderOptions out;
    out.traversalLimitInWords = 4 * bytes.size() / word_size + 64;
    out.nestingLimit = 16;
    return out;
  }

  capnp::FlatArrayMessageReader message;
  schema::Envelope::Reader root;
};

opened_envelope::opened_envelope(frame bytes, std::vector<incoming_payload> payloads)
    : bytes_(std::move(bytes)), payloads_(std::move(payloads)) {
  if (const auto plain = read_plain_envelope(bytes_.bytes())) {
    header_ = plain->header;
    header_.kind = checked_kind(plain->version, plain->kind);
    body_ = plain->body;
    check_payloads(0);
    return;
  }
  static_assert(sizeof(reader) <= sizeof storage_);
  if (bytes_.size() < 2 * word_size || bytes_.size() % word_size != 0 ||
      bytes_.size() > max_envelope)
    throw decode_error("an envelope of " + std::to_string(bytes_.size()) + " bytes");
  try {
    reader_ = new (storage_) reader(bytes_);
    read();
  } catch (const kj::Exception& e) {
    if (reader_) reader_->~reader();
    throw decode_error(std::string("an envelope is malformed: ") + e.getDescription().cStr());
  } catch (...) {
    if (reader_) reader_->~reader();
    throw;
  }
}

void opened_envelope::read() {
  auto root = reader_->root;
  header_ = {checked_kind(root.getVersion(), static_cast<unsigned>(root.getKind())),
             root.getUrgent(),
             root.getRecorded(),
             root.getUsesReplyRoute(),
             root.getUnrecorded(),
             root.getProfiled(),
             root.getProfiledShapes(),
             root.getProfiledMemory(),
             root.getLimit(),
             root.getEpoch(),
             root.getJob(),
             root.getIncarnation(),
             root.getSequence(),
             root.getTarget(),
             root.getRequest(),
             root.getSender()};
  auto body = root.getBody();
  if (body.isInline()) {
    auto data = body.getInline();
    body_ = {reinterpret_cast<const std::byte*>(data.begin()), data.size()};
  } else if (body.isPayload()) {
    if (payloads_.empty()) throw decode_error("an envelope's body is missing");
    auto& last = payloads_.back();
    if (last.place.where != memory_place::kind::host)
      throw decode_error("an envelope's body lies on a device");
    body_ = {last.data.get(), last.size};
  } else {
    throw decode_error("an envelope's body is in an unknown place");
  }
  has_tensors_ = root.hasTensors();
  // A table of tensors knows itself how many payloads are its own.
  if (!has_tensors_) check_payloads(body.isPayload() ? 1 : 0);
}

void opened_envelope::check_payloads(std::size_t expected) const {
  if (payloads_.size() != expected)
    throw decode_error("an envelope without tensors comes with " +
                       std::to_string(payloads_.size()) + " payloads instead of " +
                       std::to_string(expected));
}

opened_envelope::~opened_envelope() {
  if (reader_) reader_->~reader();
}

tensor_reader* opened_envelope::tensors(const std::vector<memory_place>& usable) {
  if (!has_tensors_) return nullptr;
  if (!tensors_) {
    // The reader alone holds what belongs to tensors, so that it can let them go.
    std::vector<incoming_payload> of_body;
    if (reader_->root.getBody().isPayload()) of_body.reserve(1);
    auto payloads = std::exchange(payloads_, std::move(of_body));
    if (reader_->root.getBody().isPayload()) {
      payloads_.push_back(std::move(payloads.back()));
      payloads.pop_back();
    }
    try {
      tensors_ =
          std::make_unique<tensor_reader>(reader_->root.getTensors(), std::move(payloads), usable);
    } catch (const kj::Exception& e) {
      throw decode_error(std::string("a tensor table is malformed: ") + e.getDescription().cStr());
    }
  }
  return tensors_.get();
}

fault opened_envelope::why() const {
  if (header_.kind != envelope_kind::failure) throw decode_error("an envelope without an error");
  try {
    // A reader of its own: what this one may read is bounded, however often it is asked.
    return read_fault(reader(bytes_).root.getFault());
  } catch (const kj::Exception& e) {
    throw decode_error(std::string("an error is malformed: ") + e.getDescription().cStr());
  }
}

}  // namespace troupe
