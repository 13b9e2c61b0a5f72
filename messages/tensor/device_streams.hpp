#pragma once

#include <c10/core/Event.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace at {
class Tensor;
}

// Which streams of devices a thread works on, and waits of streams for one another. By libtorch's
// interfaces for devices of any type; where no tensor lies on a device, nothing of this does more
// than look.
namespace troupe::detail {

/// Streams of different devices.
using stream_list = c10::SmallVector<c10::Stream, 2>;

/// What tensors lie on, without keeping it.
using weak_storage = c10::weak_intrusive_ptr<c10::StorageImpl>;

/// What was begun on devices.
struct device_work {
  stream_list streams;
  std::vector<weak_storage> made;  ///< memory of these streams, which others may use
};

/// The calling thread has made `x`, on the current stream of its device. In host memory: nothing
/// happens.
void note_made(const at::Tensor& x, device_work& in);

/// Points that streams have reached: streams that use what was made before can wait for them. Any
/// thread.
class stream_events {
public:
  /// After what is in hand.
  explicit stream_events(device_work&& work);

  /// The current streams of the calling thread wait; the thread does not. Memory that was made
  /// before is not used again until they are done with it.
  void block_current() const;

private:
  struct one {
    c10::Stream stream;
    c10::Event reached;
  };

  std::vector<one> events_;
  std::vector<weak_storage> made_;
};

/// While it lives, the streams of some work are the calling thread's current ones; those of other
/// devices stay. Costs two thread-local stores if there are none.
class stream_scope {
public:
  stream_scope() noexcept : outer_(here_) { here_ = this; }
  /// Null: as the default constructor.
  explicit stream_scope(const device_work* work) : stream_scope() {
    if (work) enter(*work);
  }
  ~stream_scope() {
    here_ = outer_;
    if (!before_.empty()) leave();
  }
  stream_scope(const stream_scope&) = delete;
  stream_scope& operator=(const stream_scope&) = delete;

  /// The innermost one of the calling thread; nullptr: none. Hot path.
  static stream_scope* here() noexcept { return here_; }

  /// The thread uses its current stream of this device, and what follows from it too.
  void touch(const c10::Device& device);

  /// The thread's streams use this memory, and what follows from it may.
  void use(const std::vector<weak_storage>& made);

  bool empty() const noexcept { return work_.streams.empty(); }
  const device_work& work() const noexcept { return work_; }

private:
  friend class no_streams;
  void enter(const device_work& work);
  void leave() noexcept;

  static inline constinit thread_local stream_scope* here_ = nullptr;

  device_work work_;
  stream_list before_;        // of those that were set
  std::size_t tidy_at_ = 64;  // so many of `work_.made`
  stream_scope* const outer_;
};

/// A `stream_scope` of a handler. Its streams wait for what the default streams of their devices
/// have in hand, and at the end those wait for them: what handlers do on a device comes after what
/// the handlers did there that had ended when they began.
class handler_streams {
public:
  explicit handler_streams(const device_work* work);
  ~handler_streams();
  handler_streams(const handler_streams&) = delete;
  handler_streams& operator=(const handler_streams&) = delete;

private:
  stream_scope scope_;
};

/// While it lives, the calling thread has the streams that it had before all `stream_scope`s. A
/// load where there is none.
class no_streams {
public:
  no_streams() noexcept : outer_(stream_scope::here_) {
    if (outer_) leave();
  }
  ~no_streams() {
    if (outer_) come_back();
  }
  no_streams(const no_streams&) = delete;
  no_streams& operator=(const no_streams&) = delete;

private:
  void leave() noexcept;
  void come_back() noexcept;

  stream_scope* const outer_;
  stream_list left_;  // the current ones, as they were found one after the other
};

/// What the calling thread has begun in its innermost scope, on its current streams. Null: nothing.
std::shared_ptr<const device_work> current_work();

/// The same, and `made`, as events. Null: nothing.
std::shared_ptr<const stream_events> reached_here(device_work&& made);

/// The default streams of the devices wait for `work`: it is used on threads that know nothing of
/// it. Null: nothing happens.
void hand_to_default(const device_work* work);

/// The current streams of the calling thread wait for the default streams, where they are others:
/// what other threads have done there is used here.
void take_from_default();

/// The same where `x` lies, which is used here: its memory is, too.
void take_from_default(const at::Tensor& x);

/// `work` on fresh streams of the pool, one for each, which wait for it.
device_work handed_on(const device_work& work);

}  // namespace troupe::detail
