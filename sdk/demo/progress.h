/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h - a bar on the last line of a terminal; nothing where standard output is none. */
#ifndef DEMO_PROGRESS_H
#define DEMO_PROGRESS_H

#include <stddef.h>

typedef struct progress {
    int on_terminal;
    int shown_percent; /* -1: no bar is on the screen */
} progress_t;

progress_t progress_new(void);
void progress_show(progress_t *progress, const char *what, size_t n_done, size_t n_total);
/* Remove the bar, so that a line can be printed in its place. */
void progress_clear(progress_t *progress);

#endif
