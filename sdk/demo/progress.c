/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - draws only when the percentage changes. */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

enum { BAR_COLUMNS = 40 };

progress_t progress_new(void)
{
    return (progress_t){isatty(STDOUT_FILENO), -1};
}

void progress_show(progress_t *progress, const char *what, size_t n_done, size_t n_total)
{
    static const char full[] = "########################################";
    int percent = n_total > 0 ? (int)(100 * n_done / n_total) : 100;
    int n_full = percent * BAR_COLUMNS / 100;

    if (progress->on_terminal && percent != progress->shown_percent) {
        printf("\r%s [%-*.*s] %3d %%", what, BAR_COLUMNS, n_full, full, percent);
        fflush(stdout);
        progress->shown_percent = percent;
    }
}

void progress_clear(progress_t *progress)
{
    if (progress->shown_percent >= 0) {
        printf("\r\033[K");
        progress->shown_percent = -1;
    }
}
