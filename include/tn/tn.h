/* Everything public of libtn. */
#ifndef TN_H
#define TN_H
#include "tn/base.h"
#include "tn/op.h"
#include "tn/prof.h"
#include "tn/runtime.h"
#endif
