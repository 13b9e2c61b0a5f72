#include "troupe/actors/membership/message_codec.hpp"

#include <tuple>

namespace troupe {

// The fields on the wire, in order. Not TROUPE_MESSAGE, since they are never sent to actors.
constexpr auto troupe_fields(const member*) {
  return std::make_tuple(&member::rank, &member::incarnation, &member::name, &member::address);
}
constexpr auto troupe_fields(const membership_change*) {
  return std::make_tuple(&membership_change::what, &membership_change::who,
                         &membership_change::cause);
}
constexpr auto troupe_fields(const membership_step*) {
  return std::make_tuple(&membership_step::epoch, &membership_step::term, &membership_step::leader,
                         &membership_step::changes);
}
constexpr auto troupe_fields(const membership_view*) {
  return std::make_tuple(&membership_view::epoch, &membership_view::term, &membership_view::leader,
                         &membership_view::members, &membership_view::gone);
}

namespace membership_messages {

constexpr auto troupe_fields(const prepare*) {
  return std::make_tuple(&prepare::term, &prepare::attempt, &prepare::step, &prepare::suspects);
}
constexpr auto troupe_fields(const ready*) {
  return std::make_tuple(&ready::term, &ready::epoch, &ready::attempt);
}
constexpr auto troupe_fields(const commit*) {
  return std::make_tuple(&commit::term, &commit::epoch, &commit::attempt);
}
constexpr auto troupe_fields(const suspect*) {
  return std::make_tuple(&suspect::rank, &suspect::incarnation, &suspect::kind, &suspect::cause);
}
constexpr auto troupe_fields(const leave*) { return std::make_tuple(); }
constexpr auto troupe_fields(const leave_notice*) { return std::make_tuple(&leave_notice::epoch); }
constexpr auto troupe_fields(const fenced*) {
  return std::make_tuple(&fenced::epoch, &fenced::cause);
}
constexpr auto troupe_fields(const ping*) { return std::make_tuple(&ping::term); }
constexpr auto troupe_fields(const pong*) { return std::make_tuple(); }
constexpr auto troupe_fields(const seek*) { return std::make_tuple(&seek::term); }
constexpr auto troupe_fields(const candidate*) {
  return std::make_tuple(&candidate::term, &candidate::deposed, &candidate::ended);
}
constexpr auto troupe_fields(const follow*) {
  return std::make_tuple(&follow::term, &follow::lost);
}

}  // namespace membership_messages

namespace {

// Checks enums, of which not every byte is a value, and the lengths of texts.
template <class Error>
struct checker {
  void operator()(const std::string& text, std::size_t most) const {
    if (text.size() > most)
      throw Error("a membership message with a text of " + std::to_string(text.size()) + " bytes");
  }
  void operator()(const member& who) const {
    (*this)(who.name, max_member_name);
    if (who.rank >= most_ranks)
      throw Error("a membership message names rank " + std::to_string(who.rank));
    if (who.address.size() > max_member_address)
      throw Error("a membership message with an address of " + std::to_string(who.address.size()) +
                  " bytes");
  }
  void operator()(const std::vector<membership_change>& changes) const {
    for (const auto& change : changes) {
      if (change.what > membership_change::kind::died)
        throw Error("a membership change of unknown kind");
      (*this)(change.who);
      (*this)(change.cause, max_cause);
    }
  }
  void operator()(const membership_messages::prepare& x) const {
    (*this)(x.step.changes);
    (*this)(x.suspects);
  }
  void operator()(const membership_messages::suspect& x) const {
    if (x.kind > transport::loss_kind::broken) throw Error("a loss of unknown kind");
    (*this)(x.cause, max_cause);
  }
  void operator()(const membership_messages::fenced& x) const { (*this)(x.cause, max_cause); }
  void operator()(const membership_messages::follow& x) const {
    for (const auto& lost : x.lost) (*this)(lost);
  }
  void operator()(const membership_view& view) const {
    for (const auto& [rank, who] : view.members) {
      if (rank != who.rank) throw Error("a view names a member by two ranks");
      if (view.gone.contains(rank)) throw Error("a view names a member that is gone");
      (*this)(who);
    }
  }
  template <class T>
  void operator()(const T&) const {}
};

}  // namespace

std::string cut_cause(std::string text) {
  if (text.size() <= max_cause) return text;
  auto size = max_cause;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  text.resize(size);
  return text;
}

void write_message(encoder& out, const membership_message& message) {
  std::visit(checker<encode_error>(), message);
  out.put(message);
}

membership_message read_message(decoder& in) {
  auto message = in.get<membership_message>();
  std::visit(checker<decode_error>(), message);
  return message;
}

void write_view(encoder& out, const membership_view& view) {
  checker<encode_error>()(view);
  out.put(view);
}

membership_view read_view(decoder& in) {
  auto view = in.get<membership_view>();
  checker<decode_error>()(view);
  return view;
}

}  // namespace troupe
