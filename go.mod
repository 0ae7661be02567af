module github.com/kernelforge/kernelforge

go 1.26.0
