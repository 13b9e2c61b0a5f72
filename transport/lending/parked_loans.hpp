#pragma once

#include <memory>
#include <vector>

#include "troupe/transport/lending/loan_book.hpp"
#include "troupe/transport/lending/node_number.hpp"
#include "troupe/transport/system/process.hpp"

namespace troupe::transport::lending {

/// A peer that this node is not connected to any more may still read what was lent to it: a verdict
/// or a broken connection says nothing about a process that was only stopped. So loans outlive
/// their connection, and their node: the memory stays as it is until the peer's process has ended
/// for certain, or, if that is this process, until its tensors have.

/// Makes `book` known, while it exists, as what `lender` has lent to `borrower`.
void publish_loans(const node_number& lender, const node_number& borrower,
                   const std::shared_ptr<loan_book>& book);

/// What `lender`, if it is a node of this process, has lent to `borrower`.
std::weak_ptr<loan_book> find_loans(const node_number& lender, const node_number& borrower);

/// Keeps what is still lent by `book` until all of these processes have ended. None: the borrower
/// is a node of this process, whose tensors end it.
void park_loans(std::shared_ptr<loan_book> book, const std::vector<process_identity>& readers);

/// Lets go of parked books without loans.
void forget_ended_loans() noexcept;

}  // namespace troupe::transport::lending
