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

	status, _, err := client.ControlAPI.ControlStatus(ctx).Instance(instance).Execute()
	check(err)
	fmt.Printf("%s is in mode %s\n", instance, status.Instances[0].Mode)

	order := sexton.NewHoldRequest("instance", 3600, "an example in Go")
	placed, _, err := client.HoldsAPI.HoldsPlace(ctx, instance).HoldRequest(*order).Execute()
	check(err)
	fmt.Printf("hold %d blocks %d marks\n", placed.Hold.Hold, *placed.BlocksNow.Get())

	planned, _, err := client.PlansAPI.PlansPlan(ctx, instance).Execute()
	check(err)
	fmt.Printf("plan %d was made\n", planned.Plan.Plan)

	_, _, err = client.HoldsAPI.HoldsRelease(ctx, instance, placed.Hold.Hold).Execute()
	check(err)
	_, response, err := client.HoldsAPI.HoldsRelease(ctx, instance, 999999).Execute()
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
