/* The triad of STREAM: a = b + s * c over three arrays of so many bytes each, for a second. Prints the best
   pass in bytes a second, counted as STREAM counts. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    size_t n = (argc > 1 ? strtoull(argv[1], NULL, 10) : 134217728) / sizeof(double);
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (!a || !b || !c)
        return 1;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.5;
    }
    volatile double scale = 3.0;
    double s = scale, best = 1e9, begun = omp_get_wtime();
    do {
        double pass = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < n; i++)
            a[i] = b[i] + s * c[i];
        pass = omp_get_wtime() - pass;
        if (pass < best)
            best = pass;
    } while (omp_get_wtime() - begun < 1.0);
    if (a[n / 2] != 3.5)
        return 1;
    printf("%.0f\n", 3.0 * sizeof(double) * n / best);
    return 0;
}
