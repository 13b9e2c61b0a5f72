#pragma once

#include "troupe/actors/rref/fetch.hpp"

namespace troupe {

class op_result;

}  // namespace troupe

namespace troupe::detail {

/// A call that is more than a function with its arguments: it is for the value of an rref
/// (`Object`, or void), or its result stays on the callee (`Creates`), or an argument is a loan.
/// `Wire` are the types that are sent.
template <class Target, class Object, bool Creates, class Wire>
class invocation {
public:
  using returned = std::remove_cvref_t<typename Target::result>;
  using answer = typename answer_of<returned>::type;
  using parameters = typename Target::template parameters<Object>;

  static constexpr std::string_view name = Target::name;
  using structure = detail::structure<Wire, std::conditional_t<Creates, void, answer>>;
  static std::uint64_t hash() {
    static const auto identity = structure::identity(name_hash());
    return identity;
  }
  static std::uint64_t name_hash() {
    return hash_name(type_name<kind<Object, Creates, Wire>>(), Target::hash());
  }

  /// Named wherever such a call is made, so that every program with the call has the entry.
  static const bool registered;

  static void invoke(decoder& in, handle_scope& handles, reply_token&& reply) {
    auto self = std::make_shared<invocation>(std::move(reply));
    try {
      self->read(in, handles);
      auto awaited = handles.take_claims();
      self->await_values(table_of(handles), awaited, places);
      const auto is_ready = [](const auto& one) { return one->ready(); };
      if (std::all_of(awaited.begin(), awaited.end(), is_ready)) {
        run(self, first_failure(awaited));
      } else {
        const auto given_up = std::make_shared<awaited_values>(handles.owner().driver(), awaited);
        self->reply_.comes_from(given_up);
        after(std::move(awaited),
              [self, given_up, devices = current_work()](const std::exception_ptr& failure) {
                const begun_later now(self->reply_);
                const handler_streams on(devices.get());
                run(self, failure ? failure : self->reply_.cancelled());
              });
      }
    } catch (...) {
      self->fail(std::current_exception());
    }
  }

  /// Reads the call and drops it.
  static void skip(decoder& in) {
    if constexpr (Creates) in.get<std::uint64_t>();
    if constexpr (!std::is_void_v<Object>) in.get<rref_id>();
    read_arguments<Wire>(in);
  }

  explicit invocation(reply_token&& reply) : reply_(std::move(reply)) {}

private:
  // Distinguishes the kinds of calls of one target.
  template <class, bool, class>
  struct kind {};

  static constexpr std::size_t count = std::tuple_size_v<Wire>;
  static constexpr std::make_index_sequence<count> places{};

  template <std::size_t I>
  static constexpr bool is_lent = is_loan<std::tuple_element_t<I, Wire>>;
  template <std::size_t I>
  static constexpr bool may_be_lent = is_value_or_loan<std::tuple_element_t<I, Wire>>;

  // The states of lent values, by place.
  template <class T>
  struct value_of {
    using type = nothing;
  };
  template <class T>
  struct value_of<loan<T>> {
    using type = std::shared_ptr<future_state<T>>;
  };
  template <class T>
  struct value_of<value_or_loan<T>> : value_of<loan<T>> {};
  template <class>
  struct values_of;
  template <class... Ts>
  struct values_of<std::tuple<Ts...>> {
    using type = std::tuple<typename value_of<Ts>::type...>;
  };

  // All is read before anything can fail: the caller has given away the references in it.
  void read(decoder& in, handle_scope& handles) {
    auto& table = table_of(handles);
    std::uint64_t number = 0;
    if constexpr (Creates) number = in.get<std::uint64_t>();
    rref_id object;
    if constexpr (!std::is_void_v<Object>) object = in.get<rref_id>();
    std::exception_ptr unreadable;
    try {
      given_ = read_arguments<Wire>(in);
    } catch (...) {
      unreadable = std::current_exception();
    }
    if constexpr (Creates)
      created_ = std::static_pointer_cast<future_state<answer>>(
          table.create(number, value_type::of<answer>(), handles.other()));
    if (unreadable) {
      unread_ = true;
      std::rethrow_exception(unreadable);
    }
    if constexpr (!std::is_void_v<Object>)
      object_ = std::static_pointer_cast<future_state<Object>>(
          table.find(object, value_type::of<Object>()));
  }

  template <std::size_t... I>
  void await_values([[maybe_unused]] rref_table& table,
                    std::vector<std::shared_ptr<future_core>>& awaited, std::index_sequence<I...>) {
    if (object_) awaited.push_back(object_);
    [[maybe_unused]] const auto await = [&]<std::size_t J>() {
      if constexpr (is_lent<J>)
        awaited.push_back(std::get<J>(values_) = borrow(table, std::get<J>(given_), Creates));
      else if constexpr (may_be_lent<J>)
        if (const auto& one = std::get<J>(given_); !one.value)
          awaited.push_back(std::get<J>(values_) = borrow(table, loan_of(one), Creates));
    };
    (await.template operator()<I>(), ...);
  }

  template <class T>
  static loan<T> loan_of(const value_or_loan<T>& one) {
    return {one.id};
  }

  // Is the result of an operator lent where the function wants one value of it?
  template <std::size_t I>
  static constexpr bool is_part_of_result() {
    if constexpr (std::is_same_v<std::tuple_element_t<I, Wire>, loan<op_result>>)
      return !std::is_convertible_v<const op_result&, std::tuple_element_t<I, parameters>>;
    else
      return false;
  }

  template <std::size_t I>
  decltype(auto) argument() {
    if constexpr (is_part_of_result<I>()) {
      return std::get<I>(values_)->value()->template to<std::tuple_element_t<I, parameters>>();
    } else if constexpr (is_lent<I>) {
      return std::as_const(*std::get<I>(values_)->value());
    } else if constexpr (may_be_lent<I>) {
      using parameter = std::tuple_element_t<I, parameters>;
      auto& given = std::get<I>(given_).value;
      return given ? parameter(std::move(*given)) : parameter(*std::get<I>(values_)->value());
    } else {
      return std::move(std::get<I>(given_));
    }
  }

  template <std::size_t... I>
  decltype(auto) call(std::index_sequence<I...>) {
    if constexpr (std::is_void_v<Object>)
      return Target::call(argument<I>()...);
    else
      return Target::call(Target::object(*static_cast<future_state<Object>&>(*object_).value()),
                          argument<I>()...);
  }

  template <std::size_t... I>
  void construct(std::index_sequence<I...>) {
    created_->set_value(argument<I>()...);
    if (created_->failure()) std::rethrow_exception(created_->failure());
  }

  static void run(const std::shared_ptr<invocation>& self,
                  const std::exception_ptr& failure) noexcept {
    try {
      if (failure) std::rethrow_exception(failure);
      if constexpr (Target::constructs) {
        self->construct(places);
        self->drop_arguments();
        self->reply_.done();
      } else if constexpr (answer_of<returned>::later) {
        const future<answer> later = self->call(places);
        later.state();  // throws when it belongs to no call
        if (later.ready()) return self->finish(later.state());
        self->reply_.comes_from(later.shared());
        // A coroutine may refer to its arguments and its object until it has an answer.
        later.state().when_ready(
            make_continuation([self, state = later.shared()] { self->finish(*state); }));
      } else if constexpr (std::is_void_v<returned>) {
        self->call(places);
        self->drop_arguments();
        if constexpr (Creates) self->created_->set_value();
        self->reply_.done();
      } else if constexpr (Creates) {
        returned result = self->call(places);
        self->drop_arguments();
        self->created_->set_value(std::move(result));
        self->reply_.done();
      } else if constexpr (std::is_reference_v<decltype(self->call(places))>) {
        const auto& result = self->call(places);  // perhaps one of the arguments
        self->reply_.value([&](encoder& out) { out.put(result); });
      } else {
        auto result = self->call(places);
        self->drop_arguments();
        self->reply_.value([&](encoder& out) { put_and_drop(out, result); });
      }
    } catch (...) {
      self->drop_arguments();
      self->fail(std::current_exception());
    }
  }

  // They have ended before the answer goes: it tells their lenders so. So have fetched values.
  void drop_arguments() {
    given_ = Wire();
    values_ = typename values_of<Wire>::type();
  }

  void finish(future_state<answer>& state) noexcept {
    if (state.failure()) return fail(state.failure());
    if constexpr (Creates) {
      try {
        if constexpr (std::is_void_v<answer>)
          created_->set_value();
        else if constexpr (std::is_copy_constructible_v<answer>)
          created_->set_value(std::as_const(*state.value()));  // others may have the future too
        else
          created_->set_value(std::move(*state.value()));
      } catch (...) {  // of the device on which it lies
        return fail(std::current_exception());
      }
      reply_.done();
    } else if constexpr (std::is_void_v<answer>) {
      reply_.done();
    } else {
      reply_.value([&](encoder& out) { out.put(*state.value()); });
    }
  }

  void fail(std::exception_ptr why) noexcept {
    reply_.fail(std::move(why), created_.get(), unread_);
  }

  reply_token reply_;
  bool unread_ = false;  // the arguments could not be read
  value_cell object_;
  std::shared_ptr<future_state<answer>> created_;
  Wire given_;
  typename values_of<Wire>::type values_;
};

template <class Target, class Object, bool Creates, class Wire>
const bool invocation<Target, Object, Creates, Wire>::registered =
    add_function(function_entry_of<invocation<Target, Object, Creates, Wire>>());

}  // namespace troupe::detail
