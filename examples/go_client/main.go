// Place a hold, look at what it blocks, plan, and release it, with the client that docs/api.md generates.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	sexton "example.org/sexton/client"
)

func main() {
	configuration := sexton.NewConfiguration()
	configuration.Servers = sexton.ServerConfigurations{{URL: os.Getenv("SEXTON_API_URL")}}
	ctx := context.WithValue(context.Background(), sexton.ContextAccessToken, os.Getenv("SEXTON_API_TOKEN"))
	client, instance := sexton.NewAPIClient(configuration), os.Args[1]

	status, _, err := client.StatusAPI.Status(ctx).Instance(instance).Execute()
	check(err)
	fmt.Printf("%s is in mode %s\n", instance, status.Instances[0].Mode)

	order := sexton.NewHoldAddRequest(3600, "an example in Go")
	placed, _, err := client.HoldAPI.HoldAdd(ctx, instance).HoldAddRequest(*order).Execute()
	check(err)
	fmt.Printf("hold %d blocks %d marks\n", placed.Hold.Hold, *placed.BlocksNow.Get())

	planned, _, err := client.PlanAPI.PlanNew(ctx, instance).Execute()
	check(err)
	fmt.Printf("plan %d was made\n", planned.Plan.Plan)

	_, _, err = client.HoldAPI.HoldRelease(ctx, placed.Hold.Hold).Execute()
	check(err)
	_, response, err := client.HoldAPI.HoldRelease(ctx, 999999).Execute()
	if err == nil {
		log.Fatal("a hold that does not exist was released")
	}
	fmt.Printf("another hold: %d\n", response.StatusCode)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
