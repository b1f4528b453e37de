/* Errors that travel between threads. */
#ifndef TN_BASE_STATUS_H
#define TN_BASE_STATUS_H

#include "tn/base.h"

/* Makes a kept error this thread's last one; returns its status. */
tn_status tn_fail_again(const tn_error *error);

#endif
