#pragma once

namespace troupe {

/// Bytes of payloads that devices have yet to write. One thread at a time; the payloads may be sent
/// once they are there.
class pending_bytes {
public:
  /// Blocks until no device writes to them any more.
  virtual ~pending_bytes() = default;

  /// Have all been written? Does not block. Throws encode_error when a device has failed.
  virtual bool there() = 0;
};

}  // namespace troupe
