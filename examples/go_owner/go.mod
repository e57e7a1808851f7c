module example.com/go_owner

go 1.19
