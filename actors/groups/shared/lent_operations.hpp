#pragma once

#include <array>
#include <memory>

#include "troupe/actors/groups/shared/tensor_loans.hpp"

namespace troupe::groups {

/// The operations of which outputs can become aliases of memory of other ranks: rules 8 and 9 of
/// docs/collectives_shared.md. Each function says whether the operation was carried out so. False:
/// the table of ways does not say so, or an output of some rank cannot become an alias; nothing has
/// changed then, on any rank, and the operation has to be carried out in another way.
///
/// One operation at a time, on any thread. They throw what operations of a shared_group throw.
class lent_operations {
public:
  explicit lent_operations(std::shared_ptr<membership> of)
      : membership_(std::move(of)), group_(membership_->group), loans_(membership_) {}

  tensor_loans& loans() noexcept { return loans_; }

  /// One tensor of a broadcast.
  bool broadcast(const operation& what, const operation_signature& asked, const at::Tensor& tensor,
                 const time_limit& limit);
  /// all_gather, gather, scatter and all_to_all.
  bool lists(const operation& what, const operation_signature& asked, const time_limit& limit);
  /// One tensor of an all_reduce, or an all_gather_into_tensor: one result for all.
  bool result(const operation& what, const operation_signature& asked, const at::Tensor& input,
              const at::Tensor& output, const time_limit& limit);

private:
  // What a rank has for each rank, and what it gets of each; null: nothing.
  struct lent_parts {
    std::array<const at::Tensor*, most_ranks> sends{}, receives{};
  };
  bool lend(const operation_signature& asked, const lent_parts& parts, bool chosen,
            const time_limit& limit);

  const std::shared_ptr<membership> membership_;
  shared_group& group_;
  tensor_loans loans_;
};

}  // namespace troupe::groups
