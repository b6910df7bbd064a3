module github.com/pawlproject/pawl/guard

go 1.26
