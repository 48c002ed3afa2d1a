/* SPDX-License-Identifier: Apache-2.0 */
/* requirement.h - whether the dynamic linker would find a library, told without opening it: listing
 * plugins must not run the code of what they need. */
#ifndef KVSI_REQUIREMENT_H
#define KVSI_REQUIREMENT_H

/* `name` is a bare file name such as "libzmq.so.5". It is found if it is in this process already,
 * in LD_LIBRARY_PATH, in the linker's cache, or in its default directories. */
int kvsi_library_is_found(const char *name);

#endif
