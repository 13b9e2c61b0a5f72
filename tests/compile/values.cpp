// Values that cannot travel, in calls and messages and as an operator's arguments: see check.py.
#include <memory>
#include <string>
#include <troupe/troupe.hpp>
#include <utility>
#include <variant>
#include <vector>

// compiles
struct plain {
  int x;
};
struct plain_2 : plain {};
struct plain_3 : plain {};
struct holder {
  std::shared_ptr<int> x;
};
TROUPE_MESSAGE_EXTERN(holder, x)

int takes_plain(plain);
plain_2 returns_plain(int);
int takes_pointer(const long*);
int takes_text(const char*);
int takes_view(std::string_view);
int takes_futures(std::vector<troupe::future<int>>);
using asker = troupe::actor<troupe::answers<plain_3, int>>;

template <class Indexes>
struct many;
template <std::size_t... I>
struct many<std::index_sequence<I...>> {
  template <std::size_t>
  using one = char;
  using type = std::variant<one<I>...>;
};
int takes_many(many<std::make_index_sequence<256>>::type);
enum class unsent { one };

// error: this type cannot be sent: give it TROUPE_MESSAGE(type, fields...) or CAF's inspect; in
// place of a pointer, a reference or a view take the value itself, such as std::string
void struct_without_a_line(const troupe::node& node) { node.rpc_sync<takes_plain>(1, plain{}); }

// error: this type cannot be sent:
void result_without_a_line(const troupe::node& node) { node.rpc_sync<returns_plain>(1, 2); }

// error: this type cannot be sent:
void pointer(const troupe::node& node) { node.rpc_sync<takes_pointer>(1, nullptr); }

// error: this type cannot be sent:
void text_as_pointer(const troupe::node& node) { node.rpc_sync<takes_text>(1, "x"); }

// error: this type cannot be sent:
void view(const troupe::node& node) { node.rpc_sync<takes_view>(1, "x"); }

// error: this type cannot be sent:
void futures(const troupe::node& node, const std::vector<troupe::future<int>>& all) {
  node.rpc_sync<takes_futures>(1, all);
}

// error: this type cannot be sent:
TROUPE_MESSAGE_CODE(holder)

// error: a received value is made first and then filled: give the type a constructor without
// arguments
struct made_of_one {
  explicit made_of_one(int x) : x(x) {}
  int x;
};
TROUPE_MESSAGE(made_of_one, x)
int takes_made_of_one(int, made_of_one);
void no_default_constructor(const troupe::node& node) {
  node.rpc_sync<takes_made_of_one>(1, 2, made_of_one(1));
}

// error: a variant that is sent has at most 255 alternatives
void large_variant(const troupe::node& node) {
  node.rpc_sync<takes_many>(1, many<std::make_index_sequence<256>>::type());
}

// error: arguments of an operator come first, then those with a name, kw("alpha", 2), then timeout
// and no_wait
void operator_with_a_name_in_front(const troupe::node& node, const at::Tensor& x) {
  node.rpc_sync(1, "aten::add", troupe::kw("alpha", 2), x, x);
}

// error: an operator takes no argument of this type
void operator_with_a_struct(const troupe::node& node) { node.rpc_sync(1, "aten::add", plain{}); }

// error: an operator takes no argument of this type
void operator_with_a_future_of_a_struct(const troupe::node& node, troupe::future<plain> x) {
  node.rpc_sync(1, "aten::add", x);
}

// error: an operator takes no argument of this type
void operator_with_a_future_of_nothing(const troupe::node& node, troupe::future<void> x) {
  node.remote(1, "aten::add", x);
}

// error: an operator takes no list of this type
void operator_with_a_list_of_texts(const troupe::node& node) {
  node.rpc_sync(1, "aten::cat", std::vector<std::string>{"x"});
}

// error: retry is for calls of functions, rpc_sync and rpc_async of a node
void operator_with_a_retry(const troupe::node& node, const at::Tensor& x) {
  node.rpc_sync(1, "aten::relu", x, troupe::retry(3));
}

// error: no value of an operator is of this type
void operator_result_of_another_type(const troupe::op_result& x) { x.to<plain>(); }

// error: what is read is named by slices: r.read(slice{0, 10}, slice{2, 4})
void read_of_a_number(const troupe::rref<at::Tensor>& x) { x.read(3); }

// error: slices come before the options of the call
void read_with_an_option_in_front(const troupe::rref<at::Tensor>& x) {
  x.read(troupe::no_wait, troupe::slice{0, 10});
}
