#pragma once

#include <ucp/api/ucp.h>

namespace troupe::transport::ucx {

/// Sends `header` without data. If UCX cannot send it at once, it does so on its own, and `later`
/// is true.
template <class Header>
ucs_status_t send_header(ucp_ep_h ep, unsigned id, const Header& header, bool* later = nullptr) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_COPY_HEADER | UCP_AM_SEND_FLAG_EAGER;
  const auto r = ucp_am_send_nbx(ep, id, &header, sizeof header, nullptr, 0, &param);
  if (UCS_PTR_IS_ERR(r)) return UCS_PTR_STATUS(r);
  if (later) *later = r != nullptr;
  if (r) ucp_request_free(r);
  return UCS_OK;
}

}  // namespace troupe::transport::ucx
